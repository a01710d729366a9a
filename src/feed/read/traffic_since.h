// The network traffic for a dataset since a given moment.
#pragma once

#include <vector>

#include "store/dataset.h"

namespace forebay::feed {

// The origins of a dataset's chunks: one for each stored dataset in it, in the order of the chunks.
// They live as long as the dataset.
std::vector<store::ChunkOrigin> origins_of(const store::Dataset& dataset);
// Whether any chunk comes over a network.
bool is_any_remote(const store::Dataset& dataset);

// Counts at the origins of the dataset's chunks. Whatever else uses these origins counts too, such
// as a second feed of the same dataset. Any thread may call anything.
class TrafficSince {
 public:
  // Begins to count. The dataset must outlive this. No two of the stored datasets in it may share
  // an origin that comes over a network, because its traffic would count twice.
  explicit TrafficSince(const store::Dataset& dataset);

  // The requests and bytes of all origins since then; the latency of the slowest, and the rates of
  // all together, as they are now.
  io::Traffic traffic() const;

 private:
  struct Counted {
    store::ChunkOrigin of;
    io::Traffic before;
  };
  std::vector<Counted> origins_;  // one for each stored dataset that comes over a network
};

}  // namespace forebay::feed
