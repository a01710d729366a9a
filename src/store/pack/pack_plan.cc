#include "store/pack/pack_plan.h"

#include <algorithm>
#include <numeric>

#include "base/limits.h"
#include "base/random.h"
#include "store/format/tar.h"

namespace forebay::store {

PackPlan make_plan(const Listing& listing, uint64_t chunk_bytes, bool shuffled, uint64_t seed,
                   uint64_t limit) {
  PackPlan plan;
  plan.order.resize(listing.samples.size());
  std::iota(plan.order.begin(), plan.order.end(), uint64_t{0});
  if (shuffled) {
    base::Random random(seed, base::Purpose::kPackOrder);
    base::shuffle(std::span<uint64_t>(plan.order), random);
  }
  if (limit > 0) plan.order.resize(std::min<uint64_t>(limit, plan.order.size()));
  uint64_t filled = 0;
  for (uint64_t i = 0; i < plan.order.size(); ++i) {
    uint64_t bytes = 0;
    for (const SourceFile& file : listing.samples[plan.order[i]].files) {
      // A file that is too large will be refused, so its content does not count.
      const uint64_t length = file.length > base::kFieldBytesMax ? 0 : file.length;
      bytes += kTarBlockBytes + length + tar_padding_bytes(length);
    }
    const bool full = !plan.begin.empty() && (filled + bytes > chunk_bytes ||
                                              i - plan.begin.back() >= base::kChunkSamplesMax);
    if (plan.begin.empty() || full) {
      plan.begin.push_back(i);
      plan.bytes.push_back(0);
      filled = 0;
    }
    filled += bytes;
    plan.bytes.back() = filled;
  }
  plan.begin.push_back(plan.order.size());
  return plan;
}

}  // namespace forebay::store
