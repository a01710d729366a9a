// What went over the network for a dataset since somebody began to count.
#pragma once

#include <vector>

#include "store/dataset.h"

namespace forebay::feed {

// Counts at the origins of the dataset's chunks. What else uses these origins counts too, like a
// second feed of the same dataset. Any thread may call anything.
class Link {
 public:
  // Begins to count. The dataset outlives this.
  explicit Link(const store::Dataset& dataset);

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
