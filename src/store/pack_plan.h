// Which sample goes into which chunk: fixed from the listing alone, before anything is read.
#pragma once

#include "store/source.h"

namespace forebay::store {

struct PackPlan {
  std::vector<uint64_t> order;  // numbers of the listing's samples
  std::vector<uint64_t> begin;  // of each chunk in `order`, and the end
  std::vector<uint64_t> bytes;  // of each chunk, as far as the source's sizes tell
  uint64_t chunks() const { return bytes.size(); }
};

// `limit` 0: all samples; else the first so many of the order.
PackPlan make_plan(const Listing& listing, uint64_t chunk_bytes, bool shuffled, uint64_t seed,
                   uint64_t limit);

}  // namespace forebay::store
