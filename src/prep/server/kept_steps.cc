#include "prep/server/kept_steps.h"

#include <algorithm>

#include "base/limits.h"
#include "prep/wire/batch_bytes.h"

namespace forebay::prep {

namespace {

constexpr uint64_t kUsualImageBytes = 1'000'000;  // of an image in its own size, or of a file

}  // namespace

bool KeptSteps::keep(Kept kept) {
  take(kept.step);
  if (kept.bytes > bytes_max_) return false;
  while (bytes_ + kept.bytes > bytes_max_) drop_oldest();
  bytes_ += kept.bytes;
  kept_.push_back(std::move(kept));
  return true;
}

bool KeptSteps::has(const Step& step) const {
  return std::ranges::find(kept_, step, &Kept::step) != kept_.end();
}

std::optional<KeptSteps::Kept> KeptSteps::take(const Step& step) {
  const auto found = std::ranges::find(kept_, step, &Kept::step);
  if (found == kept_.end()) return std::nullopt;
  Kept out = std::move(*found);
  kept_.erase(found);
  bytes_ -= out.bytes;
  return out;
}

bool KeptSteps::drop_oldest() {
  if (kept_.empty()) return false;
  bytes_ -= kept_.front().bytes;
  kept_.pop_front();
  return true;
}

void KeptSteps::drop_all() {
  while (drop_oldest()) {
  }
}

uint64_t usual_step_bytes(const feed::FeedOptions& options, uint64_t slots) {
  const Expected expected = expected_batches(options, slots);
  const bool is_one_tensor = expected.tensor_bytes > 0 && !options.files;
  const uint64_t varying = is_one_tensor ? 0 : expected.samples * kUsualImageBytes;
  return std::max<uint64_t>(1, expected.tensor_bytes + varying);
}

uint32_t kept_steps_in(uint64_t bytes, uint64_t step_bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(bytes / step_bytes, base::kKeptStepsMax));
}

}  // namespace forebay::prep
