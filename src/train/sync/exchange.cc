#include "train/sync/exchange.h"

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "base/limits.h"
#include "train/sync/floats.h"

namespace forebay::train {

using base::Bytes;
using base::Code;
using base::MutexLock;
using Kind = MessageHeader::Kind;

namespace {

// The most slices in flight to one peer. With several slices the link has work while a peer whose
// processor is busy with training confirms one.
constexpr size_t kOnTheirWayMost = 4;
// A link takes about this long for a message: short enough that the numbers are fresh, long enough
// that headers cost little. A message has at least kMessageFloatsLeast numbers, so that a busy peer
// does not take longer to confirm it than the link takes to carry it.
constexpr double kMessageSeconds = 0.1;
constexpr uint64_t kMessageFloatsLeast = 32768;
constexpr double kNsPerSecond = 1e9;
constexpr int64_t kLookNs = 1'000'000'000;  // from one call of while_waiting to the next

// Replaces the strategy of an exchange that has ended.
class Ended final : public Strategy {
 public:
  Status before_update(std::span<float> /*gradient*/) override {
    return base::fail(Code::kInvalid, "sync: this exchange has ended");
  }
  Status lost(uint32_t /*peer*/) override { return {}; }
};

}  // namespace

Exchange::Exchange(std::unique_ptr<Strategy> strategy, const io::Clock& clock,
                   const Options& options, std::span<float> gradient, std::span<float> weights)
    : strategy_(std::move(strategy)),
      clock_(clock),
      options_(options),
      gradient_(gradient),
      weights_(weights),
      measured_ns_(clock.now_ns()),
      links_(options.processes) {
  FOREBAY_CHECK((gradient.empty() || gradient.size() == weights.size()) &&
                options.rank < options.processes);
}

void Exchange::set_rules(std::vector<SgdRule> rules) {
  const MutexLock lock(mutex_);
  strategy_->set_rules(std::move(rules));
}

void Exchange::gradient_ready(Range range) {
  const MutexLock lock(mutex_);
  strategy_->gradient_ready(gradient_, range);
  reduction_due_.notify_one();
}

Status Exchange::check_gradient(std::span<const float> part) const {
  if (all_finite(part)) return {};
  const MutexLock lock(mutex_);
  return not_finite(options_.first_step + stats_.steps);
}

Status Exchange::before_update() {
  const MutexLock lock(mutex_);
  strategy_->gradient_done(gradient_);
  reduction_due_.notify_one();
  if (const Status status = wait_for_peers(); !status.ok()) return status;
  return strategy_->before_update(gradient_);
}

Status Exchange::wait_for_peers() {
  const int64_t start_ns = clock_.now_ns();
  const double longest_s = std::min(options_.wait_s_max, base::kWaitSecondsMax);
  const int64_t deadline_ns = start_ns + static_cast<int64_t>(longest_s * kNsPerSecond);
  int64_t look_ns = options_.while_waiting ? start_ns + kLookNs : INT64_MAX;
  waiting_since_ns_ = start_ns;
  while (failure_.ok() && strategy_->must_wait()) {
    // Messages that do not end the wait must not keep it from the look.
    if (clock_.wait_until(mutex_, training_changed_, std::min(look_ns, deadline_ns))) continue;
    if (!strategy_->must_wait()) break;
    if (const int64_t now_ns = clock_.now_ns(); now_ns < deadline_ns) {
      look_ns = now_ns + kLookNs;
      if (const Status status = look_while_waiting(start_ns); !status.ok()) {
        waiting_since_ns_.reset();
        return status;
      }
      continue;
    }
    if (strategy_->timed_out()) break;
    waiting_since_ns_.reset();
    return base::fail(Code::kTimedOut,
                      "sync: other processes did not finish step {} within {:.0f} s "
                      "(wait_seconds); they are slow, have ended or cannot be reached",
                      options_.first_step + stats_.steps, longest_s);
  }
  waiting_since_ns_.reset();
  waited_ns_ += clock_.now_ns() - start_ns;
  return failure_;
}

Status Exchange::look_while_waiting(int64_t start_ns) {
  if (!options_.while_waiting) return {};
  const double waited_s = static_cast<double>(clock_.now_ns() - start_ns) / kNsPerSecond;
  mutex_.unlock();
  Status status = options_.while_waiting(waited_s);
  mutex_.lock();
  return status;
}

bool Exchange::wants_weights() const {
  const MutexLock lock(mutex_);
  return strategy_->wants_weights();
}

Status Exchange::after_update() {
  const MutexLock lock(mutex_);
  // Wakes the senders, because before_update() may have made slices due whose answers the wait
  // needs.
  for (Link& link : links_) link.changed.notify_one();
  if (const Status status = wait_for_peers(); !status.ok()) return status;
  strategy_->after_update(weights_);
  ++stats_.steps;
  measure();
  for (Link& link : links_) link.changed.notify_one();
  reduction_due_.notify_one();
  return {};
}

uint64_t Exchange::message_floats(uint32_t peer) const {
  const auto floats = static_cast<uint64_t>(links_[peer].stats.bytes_per_s * kMessageSeconds /
                                            bytes_per_number(strategy_->encoding(peer)));
  return std::clamp<uint64_t>(floats, kMessageFloatsLeast, base::kSliceFloatsMax);
}

Bytes Exchange::next(uint32_t peer) {
  Link& link = links_[peer];
  Outgoing out;
  out.bytes = std::move(link.messages[link.messages_made % link.messages.size()]);
  out.bytes.resize(kMessageHeaderBytes);
  {
    const MutexLock lock(mutex_);
    bool is_filled = false;
    while (!link.is_closed && !is_filled) {
      is_filled = fill(peer, &out);
      if (!is_filled) link.changed.wait(mutex_);
    }
    if (!is_filled) return {};
    link.stats.sent_bytes += kMessageHeaderBytes + out.header.payload_bytes();
  }
  return pack(link, std::move(out));
}

bool Exchange::fill(uint32_t peer, Outgoing* out) {
  Link& link = links_[peer];
  // A peer that has ended confirms no more messages, and needs none.
  if (!link.has_ended && link.on_its_way.size() < kOnTheirWayMost &&
      strategy_->next(peer, message_floats(peer), out)) {
    out->header.number = ++link.number;
    const uint64_t bytes = kMessageHeaderBytes + out->header.payload_bytes();
    if (link.on_its_way.empty()) link.busy_since_ns = clock_.now_ns();
    link.on_its_way.push_back({.number = link.number, .bytes = bytes});
  } else if (!link.has_ended && link.told != link.taken) {
    out->header.kind = Kind::kTaken;
  } else if (!link.has_ended && is_closing_ && !link.has_said_bye &&
             link.on_its_way.size() < kOnTheirWayMost) {  // so the strategy had nothing to send
    out->header.kind = Kind::kBye;
    link.has_said_bye = true;
  } else if (link.has_ended ||
             (link.has_said_bye && link.was_said_bye && link.on_its_way.empty())) {
    out->header.kind = Kind::kEnd;
    link.is_closed = true;
  } else {
    return false;
  }
  out->header.sender = options_.rank;
  out->header.taken = link.told = link.taken;
  return true;
}

Bytes Exchange::pack(Link& link, Outgoing out) {
  base::ByteVector& message = link.messages[link.messages_made++ % link.messages.size()];
  message = std::move(out.bytes);
  out.header.payload_crc32c = base::crc32c(Bytes(message).subspan(kMessageHeaderBytes));
  const base::ByteVector header = encode_message_header(out.header);
  std::copy(header.begin(), header.end(), message.begin());
  return message;
}

size_t Exchange::message_bytes_max() const {
  const auto floats = std::min<size_t>(weights_.size(), base::kSliceFloatsMax);
  size_t most = 0;  // float32 is not always the largest: a single number has more bytes in int8
  for (int encoding = 0; encoding <= static_cast<int>(kLastEncoding); ++encoding) {
    most = std::max(most, encoded_bytes(static_cast<Encoding>(encoding), floats));
  }
  return kMessageHeaderBytes + most;
}

// Decodes and removes the header: `message` becomes the payload.
Result<MessageHeader> Exchange::unpack(uint32_t peer, Bytes* message) const {
  if (message->size() < kMessageHeaderBytes) {
    return base::fail(Code::kCorrupt, "sync: rank {} sent {} bytes, too few for a message", peer,
                      message->size());
  }
  ASSIGN_OR_RETURN(const MessageHeader header,
                   decode_message_header(message->first(kMessageHeaderBytes)));
  const Bytes rest = message->subspan(kMessageHeaderBytes);
  if (header.sender != peer || header.payload_bytes() > rest.size() ||
      !base::in_bounds(header.begin, header.count, weights_.size())) {
    return base::fail(Code::kCorrupt,
                      "sync: rank {} sent a malformed message: {} numbers from position {} as rank "
                      "{}, for a model of {} numbers",
                      peer, header.count, header.begin, header.sender, weights_.size());
  }
  *message = rest.first(header.payload_bytes());
  return header;
}

Result<bool> Exchange::received(uint32_t peer, Bytes message) {
  ASSIGN_OR_RETURN(const MessageHeader header, unpack(peer, &message));
  Link& link = links_[peer];
  if (link.arrived.size() < header.count) link.arrived.resize(header.count);
  const auto arrived = std::span(link.arrived).first(header.count);
  decode(header.encoding, message, arrived);
  Status status;
  if (base::crc32c(message) != header.payload_crc32c) {
    status = {Code::kCorrupt, "does not match its checksum"};
  } else if (!all_finite(arrived)) {
    status = {Code::kCorrupt, "has numbers that are not finite"};
  }
  const MutexLock lock(mutex_);
  link.stats.received_bytes += kMessageHeaderBytes + message.size();
  confirm(link, header.taken);
  if (header.has_payload()) {
    if (status.ok()) {
      status = strategy_->received(header, arrived);
    } else {
      strategy_->refused(header);
    }
    if (status.ok()) {
      const size_t bucket = std::bit_width(std::max<uint64_t>(header.steps, 1) - 1);
      ++stats_.staleness[std::min(bucket, stats_.staleness.size() - 1)];
    } else {
      ++link.stats.refused;
      stats_.trouble = fmt::format("sync: a message of rank {} from its step {} {}; it was refused",
                                   peer, header.step, status.message());
    }
    link.taken = header.number;
  }
  if (header.kind == Kind::kBye) link.was_said_bye = true;
  if (header.kind == Kind::kEnd) link.has_ended = true;
  link.changed.notify_one();
  training_changed_.notify_one();
  return header.kind != Kind::kEnd;
}

void Exchange::confirm(Link& link, uint64_t taken) {
  if (link.on_its_way.empty() || link.on_its_way.front().number > taken) return;
  count_busy(link);
  while (!link.on_its_way.empty() && link.on_its_way.front().number <= taken) {
    link.busy_bytes += link.on_its_way.front().bytes;
    link.on_its_way.pop_front();
  }
}

void Exchange::lost(uint32_t peer, const std::string& why) {
  const MutexLock lock(mutex_);
  Link& link = links_[peer];
  if (!link.stats.lost.empty()) return;
  link.stats.lost = why;
  link.is_closed = true;
  const Status status = strategy_->lost(peer);
  if (failure_.ok()) failure_ = status;
  link.changed.notify_all();
  training_changed_.notify_one();
}

std::span<float> Exchange::next_reduction() {
  const MutexLock lock(mutex_);
  while (failure_.ok()) {
    if (const auto numbers = begin_reduction(); !numbers.empty()) return numbers;
    // The other processes take part in sums that are due, so this process must do so before it
    // ends.
    if (is_closing_) break;
    reduction_due_.wait(mutex_);
  }
  return {};
}

std::span<float> Exchange::begin_reduction() {
  const auto numbers = strategy_->next_reduction();
  if (numbers.empty()) return {};
  if (in_sum_.empty()) in_sum_since_ns_ = clock_.now_ns();
  in_sum_.push_back(strategy_->left_out().empty() ? numbers.size_bytes()
                                                  : encoded_bytes(Encoding::kInt8, numbers.size()));
  return numbers;
}

std::span<float> Exchange::left_out() {
  const MutexLock lock(mutex_);
  return strategy_->left_out();
}

std::span<float> Exchange::next_empty_reduction() {
  const MutexLock lock(mutex_);
  if (weights_.empty()) return {};
  while (true) {
    if (const auto numbers = begin_reduction(); !numbers.empty()) return numbers;
    std::ranges::fill(gradient_, 0.0F);
    strategy_->gradient_done(gradient_);
    if (strategy_->must_wait()) continue;
    // Neither step can fail: all gradients are zero, and no peer is waited for.
    if (!strategy_->before_update(gradient_).ok()) return {};
    strategy_->after_update(weights_);
  }
}

std::vector<uint32_t> Exchange::waits_for() const {
  const MutexLock lock(mutex_);
  std::vector<uint32_t> out;
  for (uint32_t peer = 0; peer < links_.size(); ++peer) {
    const Link& link = links_[peer];
    const bool is_awaited = is_closing_ ? !link.has_ended : strategy_->waits_for(peer);
    if (peer != options_.rank && is_awaited && link.stats.lost.empty()) out.push_back(peer);
  }
  return out;
}

void Exchange::reduced() {
  const MutexLock lock(mutex_);
  const int64_t now_ns = clock_.now_ns();
  stats_.reducing_s += static_cast<double>(now_ns - in_sum_since_ns_) / kNsPerSecond;
  stats_.reduced_bytes += in_sum_.front();
  in_sum_since_ns_ = now_ns;
  in_sum_.pop_front();
  strategy_->reduced();
  training_changed_.notify_one();
}

void Exchange::settle() {
  const MutexLock lock(mutex_);
  strategy_->settle(weights_);
}

void Exchange::release() {
  const MutexLock lock(mutex_);
  strategy_ = std::make_unique<Ended>();
}

void Exchange::fail(const Status& why) {
  const MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = why;
  training_changed_.notify_one();
  reduction_due_.notify_all();
}

void Exchange::close() {
  const MutexLock lock(mutex_);
  is_closing_ = true;
  for (Link& link : links_) link.changed.notify_all();
  reduction_due_.notify_all();
}

std::vector<std::pair<std::string, std::vector<float>>> Exchange::kept() const {
  const MutexLock lock(mutex_);
  std::vector<std::pair<std::string, std::vector<float>>> out;
  for (const Kept& kept : strategy_->kept()) {
    out.emplace_back(kept.name, std::vector<float>(kept.floats.begin(), kept.floats.end()));
  }
  return out;
}

Status Exchange::restore(const std::string& name, std::span<const float> floats) {
  const MutexLock lock(mutex_);
  for (const Kept& kept : strategy_->kept()) {
    if (kept.name != name || kept.floats.size() != floats.size()) continue;
    const auto own = floats.subspan(kept.own.begin, kept.own.count);
    std::copy(own.begin(), own.end(), kept.floats.subspan(kept.own.begin).begin());
    return {};
  }
  return base::fail(Code::kInvalid, "sync: this strategy keeps no {} numbers named {}",
                    floats.size(), name);
}

std::vector<float> Exchange::shared_weights() const {
  const MutexLock lock(mutex_);
  const std::span<const float> shared = strategy_->shared_weights();
  return {shared.begin(), shared.end()};
}

std::vector<float> Exchange::averaged_weights() const {
  const MutexLock lock(mutex_);
  return strategy_->averaged(weights_);
}

}  // namespace forebay::train
