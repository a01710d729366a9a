#include "train/sync/pairs.h"

#include <algorithm>

#include "base/limits.h"
#include "train/sync/floats.h"

namespace forebay::train {

Pairs::Pairs(uint32_t rank, uint32_t processes, uint64_t seed, std::span<const float> weights)
    : rank_(rank),
      random_(seed, base::Purpose::kPairs, rank),
      is_gone_(processes),
      weights_(weights.begin(), weights.end()),
      arrived_(weights.size()),
      answers_(processes) {
  is_gone_[rank] = true;
}

Status Pairs::before_update(std::span<float> gradient) {
  return all_finite(gradient) ? Status() : not_finite(step_);
}

void Pairs::after_update(std::span<float> weights) {
  ++step_;
  settle(weights);
  if (!partner_) choose_partner();
}

void Pairs::settle(std::span<float> weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] += arrived_[i];
    weights_[i] = weights[i];
    arrived_[i] = 0;
  }
}

bool Pairs::begins_with(uint32_t peer) const {
  const bool is_odd = (rank_ + peer) % 2 == 1;
  return is_odd == (rank_ < peer);
}

void Pairs::choose_partner() {
  std::vector<uint32_t> others;
  for (uint32_t peer = 0; peer < is_gone_.size(); ++peer) {
    if (!is_gone_[peer] && begins_with(peer)) others.push_back(peer);
  }
  if (others.empty()) return;
  partner_ = others[random_.below(others.size())];
  partner_step_ = step_;
  sent_ = answered_ = 0;
}

bool Pairs::next(uint32_t peer, uint64_t floats_max, Outgoing* out) {
  if (!answers_[peer].empty()) {
    Answer& answer = answers_[peer].front();
    out->header = {.kind = MessageHeader::Kind::kAnswer,
                   .step = step_,
                   .begin = answer.range.begin,
                   .count = static_cast<uint32_t>(answer.range.count)};
    append(answer.moved, &out->bytes);
    answers_[peer].pop_front();
    return true;
  }
  if (partner_ != peer || sent_ == weights_.size()) return false;
  const uint64_t count = std::min(floats_max, weights_.size() - sent_);
  out->header = {.kind = MessageHeader::Kind::kSlice,
                 .step = step_,
                 .steps = step_ - partner_step_ + 1,
                 .begin = sent_,
                 .count = static_cast<uint32_t>(count)};
  append(std::span<const float>(weights_).subspan(sent_, count), &out->bytes);
  sent_ += count;
  return true;
}

Status Pairs::received(const MessageHeader& header, std::span<const float> floats) {
  const bool is_answer = header.kind == MessageHeader::Kind::kAnswer;
  if (is_answer && (partner_ != header.sender || answered_ + header.count > sent_)) {
    return unexpected();
  }
  if (!is_answer && (begins_with(header.sender) ||
                     answers_[header.sender].size() == base::kUnansweredSlicesMax)) {
    return unexpected();
  }
  Answer answer = {.range = {.begin = header.begin, .count = header.count},
                   .moved = {floats.begin(), floats.end()}};
  for (size_t i = 0; i < floats.size(); ++i) {
    float& own = weights_[header.begin + i];
    const float by = is_answer ? -floats[i] : (floats[i] - own) / 2;
    own += by;
    arrived_[header.begin + i] += by;
    answer.moved[i] = by;
  }
  if (!is_answer) {
    answers_[header.sender].push_back(std::move(answer));
    return {};
  }
  answered_ += header.count;
  if (answered_ == weights_.size()) partner_.reset();
  return {};
}

// Treats a damaged message like one that moves nothing: damaged weights are answered with zeros.
void Pairs::refused(const MessageHeader& header) {
  const std::vector<float> still(header.count);
  if (header.kind != MessageHeader::Kind::kAnswer) {
    auto& answers = answers_[header.sender];
    if (begins_with(header.sender) || answers.size() == base::kUnansweredSlicesMax) return;
    answers.push_back({.range = {.begin = header.begin, .count = header.count}, .moved = still});
  } else {
    static_cast<void>(received(header, still));
  }
}

Status Pairs::lost(uint32_t peer) {
  is_gone_[peer] = true;
  answers_[peer].clear();
  if (partner_ == peer) partner_.reset();
  return {};
}

}  // namespace forebay::train
