#include "jpeg/segment_splitter.h"

#include <algorithm>

namespace forebay::jpeg {
namespace {

// Shorter parts would do the same work twice for too much of it.
constexpr uint64_t kPartBitsMin = 2048;
// Of a round; bits that nothing falls into step with must not cost more than their number.
constexpr size_t kPartsMax = 8 * kStreamsMax;
// A part's first slices are single MCUs: the one behind meets it sooner.
constexpr size_t kSingleSlices = 12;
// An MCU at a time, a part looks this often for a point of the one ahead. Images of one colour, or
// of a pattern that repeats, never fall into step.
constexpr uint32_t kLooksMax = 64;
// So often a part that met damage early begins again.
constexpr uint32_t kRetriesMax = 100;
// Lengths of a part after which it rests.
constexpr uint64_t kTiredAfter = 3;

int16_t wrapped_sum(int a, int b) { return static_cast<int16_t>(a + b); }

}  // namespace

std::span<const SegmentSplitter::Point> SegmentSplitter::split(const LookupArena& arena,
                                                               const Segment& segment) {
  coefficients_.resize(kSlicePadding + kStreamsMax * kSliceStride);
  segment_ = segment;
  course_ = {};
  found_.assign(1, course_);
  // A round may end too early, as where the needed MCUs end is a guess.
  while (course_.mcu + 2 * segment.slice_mcus < segment.needed) {
    const uint64_t before = course_.bit;
    run_round(arena);
    follow_course(arena);
    if (course_.bit == before) break;
  }
  return found_;
}

void SegmentSplitter::run_round(const LookupArena& arena) {
  const uint64_t left = segment_.bits - course_.bit;
  mcus_left_ = segment_.mcus - course_.mcu;
  const uint64_t mcu_bits = left / mcus_left_ + 1;
  const uint64_t guess = mcu_bits * (segment_.needed - course_.mcu);
  const uint64_t bits = std::min(left, guess + guess / 32);
  round_end_ = course_.bit + bits;
  slice_bits_ = mcu_bits * segment_.slice_mcus;
  part_count_ =
      std::clamp<size_t>(bits / (2 * kPartBitsMin), 1, streams_at_once(kernel_.for_many()));
  const uint64_t part_bits = bits / part_count_;
  tired_after_ = kTiredAfter * part_bits;
  parts_.resize(std::max(parts_.size(), part_count_));
  for (size_t part = 0; part < part_count_; ++part) {
    begin(part, course_.bit + part * part_bits, part + 1 < part_count_ ? part + 1 : 0);
  }
  may_cut_ = true;
  decode_parts(arena, 0, part_count_);
}

void SegmentSplitter::decode_parts(const LookupArena& arena, size_t first, size_t end) {
  to_begin_ = first;
  begin_end_ = end;
  started_ = 0;
  decode_slices(kernel_, {end - first, segment_.tables, segment_.component_of}, arena,
                coefficients_.data(), *this);
}

// From part to part, as they met.
void SegmentSplitter::follow_course(const LookupArena& arena) {
  size_t number = 0;
  size_t from = 0;
  while (true) {
    Part& part = parts_[number];  // while no part is added
    const Point first = part.points[from];
    Point at = course_;
    for (; from + 1 < part.points.size(); ++from) {
      const Point& point = part.points[from + 1];
      at.bit = point.bit;
      at.mcu = course_.mcu + (point.mcu - first.mcu);
      for (size_t c = 0; c < at.dc.size(); ++c) {
        at.dc[c] = wrapped_sum(course_.dc[c], point.dc[c] - first.dc[c]);
      }
      add(at);
    }
    course_ = at;
    if (part.end == End::kMet) {
      from = part.met_at;
      number = part.ahead;
    } else if (part.end == End::kTired) {
      part.end = End::kGoing;
      tired_after_ = segment_.bits;
      may_cut_ = false;
      decode_parts(arena, number, number + 1);
    } else {
      return;
    }
  }
}

void SegmentSplitter::add(const Point& point) {
  const bool far = point.mcu - found_.back().mcu >= segment_.slice_mcus;
  if (far && point.mcu < segment_.needed) found_.push_back(point);
}

Stream* SegmentSplitter::next(Stream* done) {
  size_t slot = started_;
  if (done != nullptr) {
    slot = static_cast<size_t>(done - streams_.data());
    take(part_of_[slot], *done);
    if (parts_[part_of_[slot]].end == End::kGoing) {
      begin_slice(slot);
      return done;
    }
  }
  const auto part = next_part();
  if (!part) return nullptr;
  if (done == nullptr) ++started_;
  part_of_[slot] = *part;
  begin_slice(slot);
  return &streams_[slot];
}

std::optional<size_t> SegmentSplitter::next_part() {
  if (to_begin_ < begin_end_) return to_begin_++;
  return may_cut_ ? cut_longest() : std::nullopt;
}

// Gives half of what the part with the most to do has before it to a new one.
std::optional<size_t> SegmentSplitter::cut_longest() {
  if (part_count_ == kPartsMax) return std::nullopt;
  uint64_t most = 2 * kPartBitsMin;
  std::optional<size_t> longest;
  for (size_t number = 0; number < part_count_; ++number) {
    const Part& part = parts_[number];
    const uint64_t bit = part.points.back().bit;
    const uint64_t end = begin_of(part.ahead);
    if (part.end != End::kGoing || end < bit + most) continue;
    most = end - bit;
    longest = number;
  }
  if (!longest) return std::nullopt;
  const size_t added = part_count_++;
  parts_.resize(std::max(parts_.size(), part_count_));
  Part& part = parts_[*longest];
  begin(added, part.points.back().bit + most / 2, part.ahead);
  part.ahead = added;
  return added;
}

void SegmentSplitter::begin(size_t number, uint64_t bit, size_t ahead) {
  Part& part = parts_[number];
  part.points.assign(1, {.bit = bit});
  part.end = End::kGoing;
  part.was_met = false;
  part.retries = 0;
  part.ahead = ahead;
  part.looks = 0;
}

uint64_t SegmentSplitter::begin_of(size_t ahead) const {
  return ahead == 0 ? round_end_ : parts_[ahead].points.front().bit;
}

void SegmentSplitter::begin_slice(size_t slot) {
  const size_t number = part_of_[slot];
  const Part& part = parts_[number];
  const uint64_t bit = part.points.back().bit;
  const bool near_next =
      part.ahead != 0 && bit + slice_bits_ >= begin_of(part.ahead) && part.looks < kLooksMax;
  const bool single = near_next || part.points.size() <= kSingleSlices;
  uint32_t mcus = single ? 1 : segment_.slice_mcus;
  // Only the first part knows where it is.
  if (number == 0) mcus = std::min(mcus, mcus_left_ - part.points.back().mcu);
  streams_[slot] = {.data = segment_.data,
                    .bits = segment_.bits,
                    .bit = bit,
                    .tables = segment_.tables,
                    .out = coefficients_.data() + kSlicePadding + slot * kSliceStride,
                    .blocks = mcus * static_cast<uint32_t>(segment_.component_of.size())};
}

void SegmentSplitter::take(size_t number, const Stream& done) {
  if (done.bad) {
    end_damaged(number, done.bit);
    return;
  }
  Part& part = parts_[number];
  Point point = part.points.back();
  point.bit = done.bit;
  point.mcu += done.blocks / static_cast<uint32_t>(segment_.component_of.size());
  for (size_t c = 0; c < point.dc.size(); ++c) point.dc[c] = wrapped_sum(point.dc[c], done.dc[c]);
  part.points.push_back(point);
  const bool last_mcu = number == 0 && point.mcu == mcus_left_;
  if (point.bit >= round_end_ || last_mcu) {
    part.end = End::kBehind;
  } else {
    look_ahead(part);
  }
}

void SegmentSplitter::look_ahead(Part& part) {
  const uint64_t bit = part.points.back().bit;
  while (part.ahead != 0 && bit >= begin_of(part.ahead)) {
    Part& ahead = parts_[part.ahead];
    ++part.looks;
    const auto met = std::ranges::lower_bound(ahead.points, bit, {}, &Point::bit);
    if (met != ahead.points.end() && met->bit == bit) {
      part.end = End::kMet;
      part.met_at = static_cast<size_t>(met - ahead.points.begin());
      ahead.was_met = true;
      return;
    }
    // Where the one behind it has begun, that one may be in step and this one not.
    if (bit < begin_of(ahead.ahead)) break;
    part.ahead = ahead.ahead;
    part.looks = 0;
  }
  if (bit - part.points.front().bit > tired_after_) part.end = End::kTired;
}

// A part that is not in step may meet bits that are no code, and begins again behind them.
void SegmentSplitter::end_damaged(size_t number, uint64_t bit) {
  Part& part = parts_[number];
  const uint64_t again = std::max(bit, part.points.back().bit) + 1;
  const bool early = part.points.size() <= kSingleSlices && !part.was_met;
  const uint32_t retries = part.retries + 1;
  if (number > 0 && early && again < begin_of(part.ahead) && retries <= kRetriesMax) {
    begin(number, again, part.ahead);
    part.retries = retries;
  } else {
    part.end = End::kDamaged;
  }
}

}  // namespace forebay::jpeg
