// Decides which sample goes into which chunk, from the listing alone, before any file is read.
#pragma once

#include "store/source/source.h"

namespace forebay::store {

struct PackPlan {
  std::vector<uint64_t> order;  // numbers of the listing's samples
  std::vector<uint64_t> begin;  // where each chunk begins in `order`, and where the last one ends
  std::vector<uint64_t> bytes;  // estimated size of each chunk, from the sizes in the source
  uint64_t chunks() const { return bytes.size(); }
};

// Plans the first `limit` samples of the order, or all samples if `limit` is 0.
PackPlan make_plan(const Listing& listing, uint64_t chunk_bytes, bool shuffled, uint64_t seed,
                   uint64_t limit);

}  // namespace forebay::store
