#include "feed/read/read_ahead.h"

#include <algorithm>

namespace forebay::feed {

void ReadAhead::add(std::shared_ptr<const EpochPlan> plan) {
  FOREBAY_CHECK(wants_plan());
  if (plan_ == nullptr) {
    const auto others =
        std::ranges::lower_bound(plan->loads, limits_.urgent_end, {}, &Load::first_position);
    urgent_ = urgent_left_ = static_cast<size_t>(others - plan->loads.begin());
  }
  plan_ = std::move(plan);
  ++plans_;
  next_ = 0;
}

std::optional<LoadId> ReadAhead::next_load() {
  if (wants_plan() || !waiting_.empty()) return std::nullopt;
  if (!has_room_for_read({.plan = plans_ - 1, .number = next_}, 1)) return std::nullopt;
  if (unnamed_ == limits_.unnamed) return std::nullopt;
  const Load& load = plan_->loads[next_];
  if (load.lane >= in_lane_.size()) in_lane_.resize(load.lane + 1);
  const bool fits = memory_bytes_ + load.bytes <= limits_.memory_bytes;
  if (!fits && !may_exceed_memory(load)) return std::nullopt;
  memory_bytes_ += load.bytes;
  ++in_lane_[load.lane];
  ++unnamed_;
  const LoadId id{.plan = plans_ - 1, .number = next_++};
  if (is_urgent(id)) ++urgent_unnamed_;
  return id;
}

bool ReadAhead::may_exceed_memory(const Load& load) const {
  return plan_->has_slices && in_lane_[load.lane] == 0;
}

bool ReadAhead::begin(const LoadId& load, std::deque<PieceRead> reads) {
  if (!reads.empty()) {
    const auto after = std::ranges::upper_bound(waiting_, load, {}, &PieceRead::load);
    waiting_.insert(after, reads.begin(), reads.end());
    reads_of_.emplace(load, reads.size());
  } else {
    note_loaded(load);
  }
  --unnamed_;
  if (is_urgent(load)) --urgent_unnamed_;
  return !reads.empty();
}

bool ReadAhead::begin(const LoadId& load, std::deque<PieceRead> reads, uint64_t estimated,
                      uint64_t bytes) {
  const bool any = begin(load, std::move(reads));
  memory_bytes_ = memory_bytes_ - estimated + bytes;
  return any;
}

void ReadAhead::drop(uint32_t lane, uint64_t load_bytes) {
  memory_bytes_ -= load_bytes;
  --in_lane_[lane];
}

bool ReadAhead::is_urgent(const LoadId& load) const {
  return load.plan == 0 && load.number < urgent_;
}

// Everything of the load is in memory, or nothing of it will be read.
void ReadAhead::note_loaded(const LoadId& load) {
  if (is_urgent(load)) --urgent_left_;
}

bool ReadAhead::has_room_for_read(const LoadId& load, uint64_t bytes) const {
  const bool waits = urgent_left_ > 0 && !is_urgent(load);
  if (waits && urgent_unnamed_ > 0) return false;
  const uint32_t reads_max = waits ? std::min(limits_.beside_urgent, limits_.reads) : limits_.reads;
  return reads_ == 0 || (reads_ < reads_max && read_bytes_ + bytes <= limits_.read_bytes);
}

std::optional<PieceRead> ReadAhead::next_read() {
  if (waiting_.empty()) return std::nullopt;
  const PieceRead read = waiting_.front();
  if (!has_room_for_read(read.load, read.bytes)) return std::nullopt;
  waiting_.pop_front();
  ++reads_;
  read_bytes_ += read.bytes;
  return read;
}

bool ReadAhead::finish(const PieceRead& read) {
  --reads_;
  read_bytes_ -= read.bytes;
  const auto left = reads_of_.find(read.load);
  FOREBAY_CHECK(left != reads_of_.end());
  if (--left->second > 0) return false;
  reads_of_.erase(left);
  note_loaded(read.load);
  return true;
}

}  // namespace forebay::feed
