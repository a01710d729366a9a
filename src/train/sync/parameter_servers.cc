#include "train/sync/parameter_servers.h"

#include <algorithm>

#include "base/limits.h"
#include "train/sync/floats.h"

namespace forebay::train {

namespace {

// Gradients of at most this many of the largest messages may be sent before they are answered.
// Gradients that must wait are better summed here than queued at a server.
constexpr uint64_t kUnansweredMessages = 2;

}  // namespace

ParameterServers::ParameterServers(Options options, std::span<const float> weights)
    : options_(std::move(options)),
      weights_(weights.begin(), weights.end()),
      momentum_(weights.size()),
      pending_(weights.size()),
      peers_(options_.processes) {
  const uint64_t parts = options_.servers.size();
  FOREBAY_CHECK(parts > 0 && parts <= weights.size());
  for (uint64_t i = 0; i < parts; ++i) {
    const uint64_t begin = weights.size() * i / parts;
    const Range part = {.begin = begin, .count = weights.size() * (i + 1) / parts - begin};
    Peer& server = peers_[options_.servers[i]];
    server.part = part;
    server.pushed.emplace(part);
    server.answered.emplace(part);
  }
}

bool ParameterServers::must_wait() const {
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (waits_for(rank)) return true;
  }
  return false;
}

bool ParameterServers::waits_for(uint32_t rank) const {
  const Peer& peer = peers_[rank];
  return rank != options_.rank && !peer.is_gone && peer.answered &&
         step_ > peer.answered->last_step() + options_.staleness;
}

Status ParameterServers::before_update(std::span<float> gradient) {
  FOREBAY_CHECK(gradient.size() == weights_.size());
  if (!all_finite(gradient)) return not_finite(step_);
  ++step_;
  const float scale = 1 / static_cast<float>(options_.processes);
  for (float& value : gradient) value *= scale;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.part || peer.is_gone) continue;
    const auto [begin, count] = *peer.part;
    if (rank == options_.rank) {
      apply(*peer.part, gradient.subspan(begin, count), 1);
      continue;
    }
    for (uint64_t i = begin; i < begin + count; ++i) pending_[i] += gradient[i];
    peer.pushed->add_due(count);
  }
  return {};
}

void ParameterServers::after_update(std::span<float> weights) {
  std::copy(weights_.begin(), weights_.end(), weights.begin());
}

void ParameterServers::apply(Range range, std::span<const float> gradient, uint64_t steps) {
  for (const SgdRule& rule : rules_) {
    const uint64_t begin = std::max(range.begin, rule.range.begin);
    const uint64_t end = std::min(range.begin + range.count, rule.range.begin + rule.range.count);
    if (begin >= end) continue;
    const Range both = {.begin = begin, .count = end - begin};
    apply(rule, both, gradient.subspan(begin - range.begin, both.count), steps);
  }
}

void ParameterServers::apply(const SgdRule& rule, Range range, std::span<const float> gradient,
                             uint64_t steps) {
  const auto rate = static_cast<float>(rule.rate);
  // Weights decay once in a step of the job, which has one gradient of each process.
  const double share = static_cast<double>(steps) / options_.processes;
  const auto decay = static_cast<float>(rule.weight_decay * share);
  const auto momentum = static_cast<float>(rule.momentum);
  float* const weights = weights_.data() + range.begin;
  float* const moments = momentum_.data() + range.begin;
  for (uint64_t i = 0; i < range.count; ++i) {
    const float value = gradient[i] + decay * weights[i];
    moments[i] = momentum * moments[i] + value;
    weights[i] -= rate * (rule.nesterov ? value + momentum * moments[i] : moments[i]);
  }
}

bool ParameterServers::next(uint32_t peer, uint64_t floats_max, Outgoing* out) {
  Peer& to = peers_[peer];
  if (to.is_gone) return false;
  const bool can_push =
      to.pushed && to.pushed->due() > 0 && to.unanswered < kUnansweredMessages * floats_max;
  if (to.to_answer.empty() && !can_push) return false;
  to.answers = !to.to_answer.empty() && !(to.answers && can_push);
  if (to.answers) {
    answer(to, floats_max, out);
  } else {
    push(to, floats_max, out);
  }
  return true;
}

void ParameterServers::answer(Peer& worker, uint64_t floats_max, Outgoing* out) {
  auto& [asked, step] = worker.to_answer.front();
  const Range range = {.begin = asked.begin, .count = std::min(asked.count, floats_max)};
  out->header = {.kind = MessageHeader::Kind::kAnswer,
                 .step = step,
                 .begin = range.begin,
                 .count = static_cast<uint32_t>(range.count)};
  append(std::span<const float>(weights_).subspan(range.begin, range.count), &out->bytes);
  asked = {.begin = range.begin + range.count, .count = asked.count - range.count};
  if (asked.count == 0) worker.to_answer.pop_front();
}

void ParameterServers::push(Peer& server, uint64_t floats_max, Outgoing* out) {
  const uint64_t last_step = server.pushed->last_step();
  const Range range = server.pushed->take(floats_max, step_);
  const auto pushed = std::span(pending_).subspan(range.begin, range.count);
  out->header = {.kind = MessageHeader::Kind::kSlice,
                 .step = step_,
                 .steps = step_ - last_step,
                 .begin = range.begin,
                 .count = static_cast<uint32_t>(range.count)};
  append(pushed, &out->bytes);
  std::fill(pushed.begin(), pushed.end(), 0);
  server.unanswered += range.count;
}

namespace {

bool holds(const std::optional<Range>& part, const Range& range) {
  return part && range.begin >= part->begin &&
         base::in_bounds(range.begin - part->begin, range.count, part->count);
}

}  // namespace

Status ParameterServers::received(const MessageHeader& header, std::span<const float> floats) {
  const Range range = {.begin = header.begin, .count = header.count};
  Peer& from = peers_[header.sender];
  if (header.kind == MessageHeader::Kind::kSlice) {
    if (!holds(peers_[options_.rank].part, range)) return unexpected();
    if (header.steps == 0 || header.steps > header.step) return unexpected();
    if (from.to_answer.size() == base::kUnansweredSlicesMax) return unexpected();
    apply(range, floats, header.steps);
    from.to_answer.push_back({.range = range, .step = header.step});
    return {};
  }
  if (!holds(from.part, range)) return unexpected();
  std::copy(floats.begin(), floats.end(), weights_.begin() + static_cast<ptrdiff_t>(range.begin));
  note_answer(from, range.count, header.step);
  return {};
}

void ParameterServers::note_answer(Peer& server, uint64_t count, uint64_t step) {
  server.answered->add_due(count);
  server.answered->take(count, step);
  server.unanswered -= std::min(server.unanswered, count);
}

// Damaged gradients are answered, and damaged weights count as received: the sender counts both as
// sent, and would not send them again before this process's next gradient.
void ParameterServers::refused(const MessageHeader& header) {
  const Range range = {.begin = header.begin, .count = header.count};
  Peer& from = peers_[header.sender];
  if (header.kind != MessageHeader::Kind::kSlice) {
    if (holds(from.part, range)) note_answer(from, range.count, header.step);
  } else if (holds(peers_[options_.rank].part, range) &&
             from.to_answer.size() < base::kUnansweredSlicesMax) {
    from.to_answer.push_back({.range = range, .step = header.step});
  }
}

Status ParameterServers::lost(uint32_t peer) {
  peers_[peer].is_gone = true;
  if (!peers_[peer].part) return {};
  return base::fail(base::Code::kUnavailable,
                    "sync: rank {}, which held a part of the model, is gone; start the job again "
                    "from a checkpoint",
                    peer);
}

}  // namespace forebay::train
