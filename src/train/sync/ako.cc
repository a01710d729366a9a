#include "train/sync/ako.h"

#include <algorithm>
#include <array>

#include "train/sync/floats.h"

namespace forebay::train {

namespace {

// After this many steps the sums restart at zero, because adding small numbers to a large float32
// loses precision.
constexpr uint64_t kSumSteps = 1024;

// If a link needs more steps than this for the whole model in int8, kTop is used: the largest
// numbers arrive sooner. Float32 is never better, since sending its bytes takes more processor time
// than encoding them in fewer bytes.
constexpr double kInt8StepsMost = 64;
constexpr double kTolerance = 1.2;

// The slices of at most this many steps wait for a link, so that a step sums only what the link
// takes soon. With two slices the link still has work when a step takes longer than usual.
constexpr uint64_t kSlicesDueMost = 2;

// When more ranges than this have changed since the last step, because it takes very long or a peer
// sends tiny messages, the whole model counts as changed.
constexpr size_t kTouchedMost = 4096;

// Returns the encoding for a link that needs this many steps for the model in float32.
Encoding suited(Encoding present, double steps) {
  const double needed = steps * bytes_per_number(Encoding::kInt8) / sizeof(float);
  const double tolerance = present == Encoding::kTop ? 1 / kTolerance : kTolerance;
  return needed < kInt8StepsMost * tolerance ? Encoding::kInt8 : Encoding::kTop;
}

// Merges ranges that overlap or touch.
std::vector<Range> united(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> out;
  for (const Range& range : ranges) {
    if (range.count == 0) continue;
    if (out.empty() || range.begin > out.back().begin + out.back().count) {
      out.push_back(range);
      continue;
    }
    Range& last = out.back();
    last.count = std::max(last.begin + last.count, range.begin + range.count) - last.begin;
  }
  return out;
}

}  // namespace

Ako::Ako(const Options& options, std::span<const float> weights)
    : options_(options),
      alive_(options.processes),
      sum_(weights.size()),
      received_(weights.size()) {
  if (options.of == Of::kUpdates) {
    base_.assign(weights.begin(), weights.end());
    given_.resize(weights.size());
  }
  FOREBAY_CHECK(options.rank < options.processes);
  for (uint32_t peer = 0; peer < options.processes; ++peer) {
    // Begins at a different position for each peer, so that the peers get different partitions.
    Link& link = links_.emplace_back(weights.size(), options.partitions_least,
                                     weights.size() / options.processes * peer);
    link.is_gone = peer == options.rank;
    if (!link.is_gone) link.sent_sum.resize(weights.size());
    link.encoding = options.encoding.value_or(Encoding::kInt8);
  }
}

bool Ako::must_wait() const {
  for (uint32_t peer = 0; peer < links_.size(); ++peer) {
    if (waits_for(peer)) return true;
  }
  return false;
}

bool Ako::is_late(const Link& link) const {
  return !link.is_gone && step_ > link.rounds.last_step() + options_.staleness;
}

bool Ako::timed_out() {
  for (Link& link : links_) link.is_stuck = is_late(link);
  return true;
}

Status Ako::before_update(std::span<float> gradient) {
  if (!all_finite(gradient)) return not_finite(step_);
  if (options_.of == Of::kUpdates) return {};
  FOREBAY_CHECK(gradient.size() == sum_.size());
  const float share = 1 / static_cast<float>(alive_);
  for (size_t i = 0; i < gradient.size(); ++i) {
    sum_[i] += gradient[i];
    gradient[i] = (gradient[i] + received_[i]) * share;
    received_[i] = 0;
  }
  end_step();
  if (step_ % kSumSteps == 0) forget_sums();
  return {};
}

void Ako::after_update(std::span<float> weights) {
  if (options_.of == Of::kGradients) return;
  settle(weights);
  end_step();
  if (step_ % kSumSteps == 0) {
    for (size_t i = 0; i < weights.size(); ++i) sum_[i] = weights[i] - base_[i];
    forget_sums();
    base_.assign(weights.begin(), weights.end());
  }
  sum_what_is_due(weights);
}

void Ako::settle(std::span<float> weights) {
  if (options_.of == Of::kGradients) return;
  for (const Range& range : united(std::move(touched_))) {
    for (uint64_t i = range.begin; i < range.begin + range.count; ++i) {
      weights[i] += received_[i];
      base_[i] += received_[i];
      received_[i] = 0;
    }
  }
  touched_.clear();
}

void Ako::touch(Range range) {
  touched_.push_back(range);
  if (touched_.size() > kTouchedMost) touched_ = {{.begin = 0, .count = received_.size()}};
}

void Ako::sum_what_is_due(std::span<const float> weights) {
  std::vector<Range> due;
  for (const Link& link : links_) {
    if (link.is_gone) continue;
    for (const Range& range : link.rounds.due_ranges()) due.push_back(range);
  }
  for (const Range& range : united(std::move(due))) {
    for (uint64_t i = range.begin; i < range.begin + range.count; ++i) {
      sum_[i] = weights[i] - base_[i];
    }
  }
}

// Makes the next slice due for each link.
void Ako::end_step() {
  ++step_;
  for (Link& link : links_) {
    uint64_t slice = link.partitions.floats_per_step();
    if (options_.staleness > 0) {  // no limit, because the training waits for late links
      slice = std::max(slice, (sum_.size() + options_.staleness - 1) / options_.staleness);
      link.rounds.add_due(slice);
    } else {
      link.rounds.add_due(slice, kSlicesDueMost * slice);
    }
  }
}

bool Ako::next(uint32_t peer, uint64_t floats_max, Outgoing* out) {
  Link& link = links_[peer];
  if (link.is_gone || link.rounds.due() == 0) return false;
  link.is_stuck = false;
  const uint64_t last_step = link.rounds.last_step();
  const Range slice = link.rounds.take(floats_max, step_);
  out->header = {.kind = MessageHeader::Kind::kSlice,
                 .step = step_,
                 .steps = step_ - last_step,
                 .begin = slice.begin,
                 .count = static_cast<uint32_t>(slice.count),
                 .encoding = link.encoding};
  take(slice, link, &out->bytes);
  if (options_.of == Of::kUpdates) touch(slice);
  return true;
}

// Moves what has accumulated for a link into a message, block by block, so that the data stay in
// the processor's cache.
void Ako::take(Range slice, Link& link, base::ByteVector* out) {
  const bool is_exact = link.encoding == Encoding::kFloat32;
  const auto parts = static_cast<float>(options_.of == Of::kUpdates ? alive_ : 1);
  const float part = 1 / parts;
  size_t to = out->size();
  out->resize(to + encoded_bytes(link.encoding, slice.count));
  std::array<float, kEncodedBlock> block;
  for (uint64_t done = 0; done < slice.count; done += block.size()) {
    const uint64_t count = std::min<uint64_t>(block.size(), slice.count - done);
    const float* const sum = sum_.data() + slice.begin + done;
    float* const sent = link.sent_sum.data() + slice.begin + done;
    for (uint64_t i = 0; i < count; ++i) block[i] = (sum[i] - sent[i]) * part;
    encode(link.encoding, std::span(block).first(count), out->data() + to);
    to += encoded_bytes(link.encoding, count);
    for (uint64_t i = 0; i < count; ++i) sent[i] = is_exact ? sum[i] : sent[i] + block[i] * parts;
    if (options_.of != Of::kUpdates) continue;
    float* const received = received_.data() + slice.begin + done;
    float* const given = given_.data() + slice.begin + done;
    for (uint64_t i = 0; i < count; ++i) {
      received[i] -= block[i];
      given[i] += block[i];
    }
  }
}

Status Ako::received(const MessageHeader& header, std::span<const float> floats) {
  if (header.kind != MessageHeader::Kind::kSlice) return unexpected();
  uint64_t& peer_step = links_[header.sender].peer_step;
  peer_step = std::max(peer_step, header.step);
  float* const to = received_.data() + header.begin;
  for (size_t i = 0; i < floats.size(); ++i) to[i] += floats[i];
  if (options_.of == Of::kUpdates) touch({.begin = header.begin, .count = header.count});
  return {};
}

Status Ako::lost(uint32_t peer) {
  Link& link = links_[peer];
  if (link.is_gone) return {};
  link.is_gone = true;
  link.sent_sum = {};
  if (options_.of == Of::kUpdates && link.peer_step < step_) {
    const double made = static_cast<double>(link.peer_step) / static_cast<double>(step_);
    take_back((1 - made) / static_cast<double>(options_.processes - 1));
  }
  --alive_;
  return {};
}

void Ako::take_back(double share) {
  for (size_t i = 0; i < given_.size(); ++i) {
    received_[i] += static_cast<float>(share) * given_[i];
  }
  touched_ = {{.begin = 0, .count = given_.size()}};
}

void Ako::measured(uint32_t peer, double floats_per_step) {
  Link& link = links_[peer];
  const double steps = static_cast<double>(sum_.size()) / floats_per_step;
  if (!options_.encoding) link.encoding = suited(link.encoding, steps);
  link.partitions.follow(floats_per_step * sizeof(float) / bytes_per_number(link.encoding));
}

std::vector<float> Ako::averaged(std::span<const float> weights) const {
  if (options_.of == Of::kGradients) return {};
  std::vector<float> mean(weights.begin(), weights.end());
  const float share = 1 / static_cast<float>(alive_);
  for (const Link& link : links_) {
    for (size_t i = 0; i < link.sent_sum.size(); ++i) {
      mean[i] -= (weights[i] - base_[i] - link.sent_sum[i]) * share;
    }
  }
  for (size_t i = 0; i < mean.size(); ++i) mean[i] += received_[i];
  return mean;
}

void Ako::forget_sums() {
  for (Link& link : links_) {
    for (size_t i = 0; i < link.sent_sum.size(); ++i) link.sent_sum[i] -= sum_[i];
  }
  std::fill(sum_.begin(), sum_.end(), 0);
}

}  // namespace forebay::train
