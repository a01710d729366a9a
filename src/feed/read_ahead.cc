#include "feed/read_ahead.h"

namespace forebay::feed {

void ReadAhead::add_epoch(std::shared_ptr<const EpochPlan> plan) {
  FOREBAY_CHECK(wants_epoch());
  plan_ = std::move(plan);
  next_ = 0;
}

std::optional<LoadId> ReadAhead::next_load() {
  if (wants_epoch() || !waiting_.empty() || !has_room_for_read(1)) return std::nullopt;
  const uint64_t bytes = plan_->loads[next_].bytes;
  if (memory_bytes_ + bytes > limits_.memory_bytes) return std::nullopt;
  memory_bytes_ += bytes;
  return LoadId{.epoch = plan_->epoch, .number = next_++};
}

bool ReadAhead::begin(const LoadId& load, std::deque<PieceRead> reads) {
  FOREBAY_CHECK(waiting_.empty());
  if (reads.empty()) return false;
  reads_of_.emplace(load, reads.size());
  waiting_ = std::move(reads);
  return true;
}

bool ReadAhead::has_room_for_read(uint64_t bytes) const {
  return reads_ == 0 || (reads_ < limits_.reads && read_bytes_ + bytes <= limits_.read_bytes);
}

std::optional<PieceRead> ReadAhead::next_read() {
  if (waiting_.empty() || !has_room_for_read(waiting_.front().bytes)) return std::nullopt;
  const PieceRead read = waiting_.front();
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
  return true;
}

}  // namespace forebay::feed
