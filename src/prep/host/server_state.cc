#include "prep/host/server_state.h"

#include <algorithm>

namespace forebay::prep {

using base::Code;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// A server that does not answer is asked again after this time, which doubles with each failure.
constexpr int64_t kRetryNs = kSecondNs / 2;
constexpr int64_t kRetryMostNs = 10 * kSecondNs;
// After so many damaged batches a server is no longer used.
constexpr uint64_t kDamagedMost = 3;

}  // namespace

ServerState::Next ServerState::answer_job(const Result<uint32_t>& keeps, const std::string& list,
                                          bool had_lists, int64_t now_ns) {
  is_asked_ = false;
  if (is_banned_) return Next::kNothing;
  if (!keeps) {
    note_no_answer(base::status_of(keeps), now_ns);
    return Next::kNothing;
  }
  keeps_ = *keeps;
  has_job_ = true;
  // A job that the server already had may be using any of the earlier lists.
  list_ = had_lists ? std::nullopt : std::optional<std::string>("");
  is_asked_ = list_ != list;
  if (is_asked_) return Next::kSendList;
  use(now_ns);
  return Next::kUse;
}

ServerState::Next ServerState::answer_list(const Status& status, const std::string& sent,
                                           const std::string& list, int64_t now_ns) {
  is_asked_ = false;
  if (is_banned_) return Next::kNothing;
  if (!has_job_) {
    retry_ns_ = now_ns;  // the job was lost meanwhile
    return Next::kNothing;
  }
  if (!status.ok()) {
    note_no_answer(status, now_ns);
    return Next::kNothing;
  }
  is_asked_ = sent != list;  // another epoch has begun meanwhile
  list_ = is_asked_ ? std::nullopt : std::optional(list);
  if (is_asked_) return Next::kSendList;
  use(now_ns);
  return Next::kUse;
}

ServerState::Next ServerState::begin_epoch(const std::string& list) {
  if (!has_job_ || is_banned_) return Next::kNothing;
  is_up_ = list_ == list;
  if (is_up_) return Next::kUse;
  list_.reset();
  return std::exchange(is_asked_, true) ? Next::kNothing : Next::kSendList;
}

void ServerState::use(int64_t now_ns) {
  is_up_ = true;
  up_ns_ = now_ns;
  trouble_.clear();
}

// The job will be sent to the server again later.
void ServerState::note_no_answer(const Status& status, int64_t now_ns) {
  has_job_ = false;
  trouble_ = status.message();
  wait_ns_ = std::clamp(wait_ns_ * 2, kRetryNs, kRetryMostNs);
  retry_ns_ = now_ns + wait_ns_;
}

// A prep server that was started again has lost the job, and gets it again.
ServerState::Lost ServerState::fail(const Status& status) {
  trouble_ = status.message();
  if (status.code() == Code::kCorrupt) {
    if (++damaged_ < kDamagedMost) return Lost::kStep;
    is_banned_ = true;
    trouble_ = "it sends damaged batches: " + trouble_;
    return Lost::kServer;
  }
  const bool is_alone = status.code() == Code::kIo || status.code() == Code::kInvalid ||
                        status.code() == Code::kNoMemory;
  return is_alone ? Lost::kStep : Lost::kServer;
}

bool ServerState::lose(const std::string& why, int64_t now_ns) {
  trouble_ = why;
  has_job_ = false;
  if (!std::exchange(is_up_, false)) return false;
  // The server may just have been started again, so it is asked at once. A server that fails as
  // soon as it is up is asked later.
  const bool was_long_up = now_ns - up_ns_ >= kRetryNs;
  wait_ns_ = was_long_up ? kRetryNs : std::clamp(wait_ns_ * 2, kRetryNs, kRetryMostNs);
  retry_ns_ = was_long_up ? now_ns : now_ns + wait_ns_;
  return true;
}

}  // namespace forebay::prep
