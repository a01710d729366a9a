// What the host knows of one prep server: whether it is up, whether it has the job and the epoch's
// list of samples, and when it is asked again. Plain logic; times are handed in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace forebay::prep {

using base::Result;
using base::Status;

// One thread at a time may use it.
class ServerState {
 public:
  // What to do after an answer.
  enum class Next : uint8_t { kNothing, kSendList, kUse };
  // `kStep`: another server or the host makes the step. `kServer`: the server is down.
  enum class Lost : uint8_t { kStep, kServer };

  bool is_up() const { return is_up_; }
  bool is_banned() const { return is_banned_; }
  uint32_t keeps() const { return keeps_; }
  const std::string& trouble() const { return trouble_; }
  void set_trouble(std::string text) { trouble_ = std::move(text); }

  // When the job is to be sent again; INT64_MAX: not now.
  int64_t ask_ns() const { return is_up_ || is_asked_ || is_banned_ ? INT64_MAX : retry_ns_; }
  // The job is being sent.
  void ask() { is_asked_ = true; }
  // The answer to the job: how many steps the server can keep. `list`: the name of the epoch's
  // list, which it then needs; empty: there is none. `had_lists`: whether an earlier epoch had one,
  // which a server that knows the job may still be using.
  Next answer_job(const Result<uint32_t>& keeps, const std::string& list, bool had_lists,
                  int64_t now_ns);
  // The answer to a list that was sent. `list`: the name of the present epoch's list.
  Next answer_list(const Status& status, const std::string& sent, const std::string& list,
                   int64_t now_ns);
  // An epoch begins with this list. kUse: the server is up for it already.
  Next begin_epoch(const std::string& list);

  // A request for a step has failed.
  Lost fail(const Status& status);
  // The server sent what it must not send, and is no longer used. lose() must follow.
  void ban() { is_banned_ = true; }
  // The server is gone, or has forgotten the job. Returns whether it was up.
  bool lose(const std::string& why, int64_t now_ns);
  // The server ended the job, so it is not asked at once.
  void wait_before_asking(int64_t now_ns) { retry_ns_ = now_ns + wait_ns_; }

 private:
  void use(int64_t now_ns);
  void note_no_answer(const Status& status, int64_t now_ns);

  bool is_up_ = false;
  bool is_asked_ = false;  // was sent the job or a list, and has not answered yet
  bool has_job_ = false;
  std::optional<std::string> list_ = {};  // the list that it uses; unset: not known
  bool is_banned_ = false;
  int64_t retry_ns_ = INT64_MAX;  // when it is asked again; the first time is the caller's choice
  int64_t wait_ns_ = 0;           // the delay before that
  int64_t up_ns_ = 0;             // since when it is up
  uint64_t damaged_ = 0;          // batches
  uint32_t keeps_ = 0;            // most finished steps that it can keep
  std::string trouble_ = {};
};

}  // namespace forebay::prep
