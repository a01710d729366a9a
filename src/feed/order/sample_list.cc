#include "feed/order/sample_list.h"

#include <algorithm>

#include "base/limits.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using base::Status;

namespace {

Status check_step_ends(const SampleList& list) {
  uint64_t begin = 0;
  for (const uint64_t end : list.step_ends) {
    if (end <= begin || end - begin > base::kBatchMax) {
      return fail(Code::kInvalid,
                  "a step goes from position {} to {}; it must have from 1 to {} samples", begin,
                  end, base::kBatchMax);
    }
    begin = end;
  }
  if (list.step_ends.empty() || begin == list.samples.size()) return {};
  return fail(Code::kInvalid, "the steps end at position {}, but the list has {} samples", begin,
              list.samples.size());
}

}  // namespace

uint64_t SampleList::largest_step() const {
  uint64_t largest = 0;
  uint64_t begin = 0;
  for (const uint64_t end : step_ends) {
    largest = std::max(largest, end - begin);
    begin = end;
  }
  return largest;
}

Status check_list(const SampleList& list, uint64_t dataset_samples) {
  const auto wrong = std::ranges::find_if(
      list.samples, [&](uint64_t sample) { return sample >= dataset_samples; });
  if (wrong != list.samples.end()) {
    return fail(Code::kInvalid,
                "there is no sample {}: the dataset has {} samples, numbered from 0", *wrong,
                dataset_samples);
  }
  if (!list.drawn_for.empty() && list.drawn_for.size() != list.samples.size()) {
    return fail(Code::kInvalid, "drawn_for has {} numbers, but the list has {} samples",
                list.drawn_for.size(), list.samples.size());
  }
  for (const uint64_t number : list.drawn_for) {
    if (number > base::kDrawnForMax) {
      return fail(Code::kInvalid, "drawn_for has the number {}; the largest allowed one is {}",
                  number, base::kDrawnForMax);
    }
  }
  return check_step_ends(list);
}

SampleList draw_samples(const SampleWeights& weights, uint64_t seed, uint64_t epoch,
                        uint64_t count) {
  SampleList out;
  out.samples.reserve(count);
  out.drawn_for.reserve(count);
  std::vector<uint64_t> next(weights.size());  // what each sample is drawn for next
  for (uint64_t sample = 0; sample < next.size(); ++sample) next[sample] = sample;
  for (uint64_t position = 0; position < count; ++position) {
    const uint64_t sample = weights.draw(seed, epoch, position);
    out.samples.push_back(sample);
    out.drawn_for.push_back(next[sample] & base::kDrawnForMax);
    next[sample] += weights.size();
  }
  return out;
}

}  // namespace forebay::feed
