#include "jpeg/segment_splitter.h"

#include <algorithm>

namespace forebay::jpeg {
namespace {

// Shorter walks would spend too much of their work before they fall into step.
constexpr uint64_t kWalkBitsMin = 2048;
// The most walks of a round. Data in which no walk falls into step must not cost more than this.
constexpr size_t kWalksEnough = 8 * kStreamSlots;
// The first slices of a walk are single MCUs, so that the walk before it meets it sooner.
constexpr size_t kSingleSlices = 12;
// How often a walk looks for a point of the walk ahead while going one MCU at a time. Images of one
// colour, or of a repeating pattern, never fall into step.
constexpr uint32_t kLooksEnough = 64;
// How many times a walk restarts after an invalid code near its beginning.
constexpr uint32_t kRetriesEnough = 100;
// A walk pauses after this many times its planned length.
constexpr uint64_t kTiredAfter = 3;

int16_t wrapped_sum(int a, int b) { return static_cast<int16_t>(a + b); }

}  // namespace

std::span<const SegmentSplitter::Point> SegmentSplitter::split(const LookupArena& arena,
                                                               const Input& segment) {
  coefficients_.resize(kSlicePadding + kStreamSlots * kSliceStride);
  input_ = segment;
  course_ = {};
  found_.assign(1, course_);
  // Several rounds may be needed, because the end of the needed MCUs is only estimated.
  while (course_.mcu + 2 * segment.slice_mcus < segment.needed) {
    const uint64_t before = course_.bit;
    run_round(arena);
    follow_course(arena);
    if (course_.bit == before) break;
  }
  return found_;
}

void SegmentSplitter::run_round(const LookupArena& arena) {
  const uint64_t left = input_.bits - course_.bit;
  mcus_left_ = input_.mcus - course_.mcu;
  const uint64_t mcu_bits = left / mcus_left_ + 1;
  const uint64_t guess = mcu_bits * (input_.needed - course_.mcu);
  const uint64_t bits = std::min(left, guess + guess / 32);
  round_end_ = course_.bit + bits;
  slice_bits_ = mcu_bits * input_.slice_mcus;
  walk_count_ =
      std::clamp<size_t>(bits / (2 * kWalkBitsMin), 1, streams_at_once(kernel_.for_many()));
  const uint64_t walk_bits = bits / walk_count_;
  tired_after_ = kTiredAfter * walk_bits;
  walks_.resize(std::max(walks_.size(), walk_count_));
  for (size_t walk = 0; walk < walk_count_; ++walk) {
    begin(walk, course_.bit + walk * walk_bits, walk + 1 < walk_count_ ? walk + 1 : 0);
  }
  may_cut_ = true;
  decode_walks(arena, 0, walk_count_);
}

void SegmentSplitter::decode_walks(const LookupArena& arena, size_t first, size_t end) {
  to_begin_ = first;
  begin_end_ = end;
  started_ = 0;
  decode_slices(kernel_, {end - first, input_.tables, input_.component_of}, arena,
                coefficients_.data(), *this);
}

// Follows the true course from walk to walk, at the points where they met.
void SegmentSplitter::follow_course(const LookupArena& arena) {
  size_t number = 0;
  size_t from = 0;
  while (true) {
    Walk& walk = walks_[number];  // the reference is valid while no walk is added
    const Point first = walk.points[from];
    Point at = course_;
    for (; from + 1 < walk.points.size(); ++from) {
      const Point& point = walk.points[from + 1];
      at.bit = point.bit;
      at.mcu = course_.mcu + (point.mcu - first.mcu);
      for (size_t c = 0; c < at.dc.size(); ++c) {
        at.dc[c] = wrapped_sum(course_.dc[c], point.dc[c] - first.dc[c]);
      }
      add(at);
    }
    course_ = at;
    if (walk.end == End::kMet) {
      from = walk.met_at;
      number = walk.ahead;
    } else if (walk.end == End::kTired) {
      walk.end = End::kGoing;
      tired_after_ = input_.bits;
      may_cut_ = false;
      decode_walks(arena, number, number + 1);
    } else {
      return;
    }
  }
}

void SegmentSplitter::add(const Point& point) {
  const bool far = point.mcu - found_.back().mcu >= input_.slice_mcus;
  if (far && point.mcu < input_.needed) found_.push_back(point);
}

Stream* SegmentSplitter::next(Stream* done) {
  size_t slot = started_;
  if (done != nullptr) {
    slot = static_cast<size_t>(done - streams_.data());
    take(walk_of_[slot], *done);
    if (walks_[walk_of_[slot]].end == End::kGoing) {
      begin_slice(slot);
      return done;
    }
  }
  const auto walk = next_walk();
  if (!walk) return nullptr;
  if (done == nullptr) ++started_;
  walk_of_[slot] = *walk;
  begin_slice(slot);
  return &streams_[slot];
}

std::optional<size_t> SegmentSplitter::next_walk() {
  if (to_begin_ < begin_end_) return to_begin_++;
  return may_cut_ ? cut_longest() : std::nullopt;
}

// Finds the walk with the most bits left and starts a new walk in the middle of these bits.
std::optional<size_t> SegmentSplitter::cut_longest() {
  if (walk_count_ == kWalksEnough) return std::nullopt;
  uint64_t most = 2 * kWalkBitsMin;
  std::optional<size_t> longest;
  for (size_t number = 0; number < walk_count_; ++number) {
    const Walk& walk = walks_[number];
    const uint64_t bit = walk.points.back().bit;
    const uint64_t end = begin_of(walk.ahead);
    if (walk.end != End::kGoing || end < bit + most) continue;
    most = end - bit;
    longest = number;
  }
  if (!longest) return std::nullopt;
  const size_t added = walk_count_++;
  walks_.resize(std::max(walks_.size(), walk_count_));
  Walk& walk = walks_[*longest];
  begin(added, walk.points.back().bit + most / 2, walk.ahead);
  walk.ahead = added;
  return added;
}

void SegmentSplitter::begin(size_t number, uint64_t bit, size_t ahead) {
  Walk& walk = walks_[number];
  walk.points.assign(1, {.bit = bit});
  walk.end = End::kGoing;
  walk.was_met = false;
  walk.retries = 0;
  walk.ahead = ahead;
  walk.looks = 0;
}

uint64_t SegmentSplitter::begin_of(size_t ahead) const {
  return ahead == 0 ? round_end_ : walks_[ahead].points.front().bit;
}

void SegmentSplitter::begin_slice(size_t slot) {
  const size_t number = walk_of_[slot];
  const Walk& walk = walks_[number];
  const uint64_t bit = walk.points.back().bit;
  const bool near_next =
      walk.ahead != 0 && bit + slice_bits_ >= begin_of(walk.ahead) && walk.looks < kLooksEnough;
  const bool single = near_next || walk.points.size() <= kSingleSlices;
  uint32_t mcus = single ? 1 : input_.slice_mcus;
  // Only the first walk knows its position in the image.
  if (number == 0) mcus = std::min(mcus, mcus_left_ - walk.points.back().mcu);
  streams_[slot] = {.data = input_.data,
                    .bits = input_.bits,
                    .bit = bit,
                    .tables = input_.tables,
                    .out = coefficients_.data() + kSlicePadding + slot * kSliceStride,
                    .blocks = mcus * static_cast<uint32_t>(input_.component_of.size())};
}

void SegmentSplitter::take(size_t number, const Stream& done) {
  if (done.bad) {
    end_damaged(number, done.bit);
    return;
  }
  Walk& walk = walks_[number];
  Point point = walk.points.back();
  point.bit = done.bit;
  point.mcu += done.blocks / static_cast<uint32_t>(input_.component_of.size());
  for (size_t c = 0; c < point.dc.size(); ++c) point.dc[c] = wrapped_sum(point.dc[c], done.dc[c]);
  walk.points.push_back(point);
  const bool last_mcu = number == 0 && point.mcu == mcus_left_;
  if (point.bit >= round_end_ || last_mcu) {
    walk.end = End::kRoundEnd;
  } else {
    look_ahead(walk);
  }
}

void SegmentSplitter::look_ahead(Walk& walk) {
  const uint64_t bit = walk.points.back().bit;
  while (walk.ahead != 0 && bit >= begin_of(walk.ahead)) {
    Walk& ahead = walks_[walk.ahead];
    ++walk.looks;
    const auto met = std::ranges::lower_bound(ahead.points, bit, {}, &Point::bit);
    if (met != ahead.points.end() && met->bit == bit) {
      walk.end = End::kMet;
      walk.met_at = static_cast<size_t>(met - ahead.points.begin());
      ahead.was_met = true;
      return;
    }
    // Once this walk passes the beginning of the walk after the next, that later walk may be in
    // step although the next one is not.
    if (bit < begin_of(ahead.ahead)) break;
    walk.ahead = ahead.ahead;
    walk.looks = 0;
  }
  if (bit - walk.points.front().bit > tired_after_) walk.end = End::kTired;
}

// A walk that is not in step may meet bits that are no code; it then restarts after them.
void SegmentSplitter::end_damaged(size_t number, uint64_t bit) {
  Walk& walk = walks_[number];
  const uint64_t again = std::max(bit, walk.points.back().bit) + 1;
  const bool early = walk.points.size() <= kSingleSlices && !walk.was_met;
  const uint32_t retries = walk.retries + 1;
  if (number > 0 && early && again < begin_of(walk.ahead) && retries <= kRetriesEnough) {
    begin(number, again, walk.ahead);
    walk.retries = retries;
  } else {
    walk.end = End::kDamaged;
  }
}

}  // namespace forebay::jpeg
