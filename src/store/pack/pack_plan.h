// Which sample goes into which chunk. This follows from the listing alone, before anything is read.
#pragma once

#include "store/source/source.h"

namespace forebay::store {

struct PackPlan {
  std::vector<uint64_t> order;  // numbers of the listing's samples
  std::vector<uint64_t> begin;  // where each chunk begins in `order`, and the end of the last one
  std::vector<uint64_t> bytes;  // size of each chunk, computed from the source's sizes
  uint64_t chunks() const { return bytes.size(); }
};

// Takes the first `limit` samples of the order, or all where `limit` is 0.
PackPlan make_plan(const Listing& listing, uint64_t chunk_bytes, bool shuffled, uint64_t seed,
                   uint64_t limit);

}  // namespace forebay::store
