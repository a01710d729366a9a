// Which prep servers are up: sends them the job, again when they have lost it, and notes their
// failures.
#include <algorithm>

#include "prep/host/epoch_share.h"

namespace forebay::prep {

using base::Code;
using base::MutexLock;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// A server that does not answer is asked again after this time, which doubles with each failure.
constexpr int64_t kRetryNs = kSecondNs / 2;
constexpr int64_t kRetryMostNs = 10 * kSecondNs;
constexpr int64_t kGreetingNs = 5 * kSecondNs;  // how long greet() waits for the first answers
// After so many damaged batches a server is no longer used.
constexpr uint64_t kDamagedMost = 3;

}  // namespace

Status EpochShare::greet() {
  struct Greeting {
    base::Mutex mutex;
    base::CondVar changed;
    size_t left GUARDED_BY(mutex) = 0;
    Status failed GUARDED_BY(mutex);
  };
  const auto greeting = std::make_shared<Greeting>();
  {
    MutexLock lock(greeting->mutex);
    greeting->left = setup_.places.size();
  }
  for (uint32_t server = 0; server < setup_.places.size(); ++server) {
    {
      MutexLock lock(mutex_);
      servers_[server].is_asked = true;
    }
    client_->send_job(setup_.places[server], setup_.job, setup_.tables,
                      [this, greeting, server](const Result<uint32_t>& keeps) {
                        note_answer(server, keeps);
                        const Status status = base::status_of(keeps);
                        MutexLock lock(greeting->mutex);
                        const bool is_refused =
                            status.code() == Code::kInvalid || status.code() == Code::kUnsupported;
                        if (is_refused && greeting->failed.ok()) {
                          greeting->failed = status.at(setup_.places[server].name);
                        }
                        --greeting->left;
                        greeting->changed.notify_all();
                      });
  }
  // A server that hangs is treated like a server that is not there.
  const int64_t deadline_ns = clock_.now_ns() + kGreetingNs;
  MutexLock lock(greeting->mutex);
  while (greeting->left > 0 && clock_.wait_until(greeting->mutex, greeting->changed, deadline_ns)) {
  }
  return greeting->failed;
}

void EpochShare::send_job(uint32_t server) {
  client_->send_job(setup_.places[server], setup_.job, setup_.tables,
                    [this, server](const Result<uint32_t>& keeps) { note_answer(server, keeps); });
}

void EpochShare::note_answer(uint32_t server, const Result<uint32_t>& keeps) {
  std::vector<PolicyAction> actions;
  bool is_to_tell = false;
  {
    MutexLock lock(mutex_);
    Server& of = servers_[server];
    of.is_asked = false;
    if (of.is_banned) return;
    if (keeps) {
      of.keeps = *keeps;
      of.has_job = true;
      // A job that the server already had may be using any of the earlier lists.
      of.list = has_listed_ ? std::nullopt : std::optional<std::string>("");
      is_to_tell = of.list != list_id();
      of.is_asked = is_to_tell;
      if (!is_to_tell) actions = come_up(server);
    } else {
      note_no_answer(server, base::status_of(keeps));
    }
    watched_.notify_all();
  }
  if (keeps) stay(server);
  if (is_to_tell) send_list(server);
  act(actions);
}

std::vector<PolicyAction> EpochShare::come_up(uint32_t server) {
  Server& of = servers_[server];
  of.is_up = true;
  of.up_ns = clock_.now_ns();
  of.trouble.clear();
  return tell(PolicyEvent::Kind::kServerUp, 0, server);
}

// The job will be sent to the server again later.
void EpochShare::note_no_answer(uint32_t server, const Status& status) {
  Server& of = servers_[server];
  of.has_job = false;
  of.trouble = status.message();
  of.wait_ns = std::clamp(of.wait_ns * 2, kRetryNs, kRetryMostNs);
  of.retry_ns = clock_.now_ns() + of.wait_ns;
}

std::string EpochShare::list_id() const {
  return list_.name.empty() ? "" : fmt::format("{} of epoch {}", list_.name, list_epoch_);
}

// Sends the epoch's list of samples. Only one list is on its way to a server at a time, so that no
// list overtakes another.
void EpochShare::send_list(uint32_t server) {
  Table list;
  std::string id;
  ListPath path{.job = expected_.job};
  {
    MutexLock lock(mutex_);
    list = list_;
    id = list_id();
    path.epoch = list_epoch_;
    path.table = list_.name;
  }
  client_->send_list(setup_.places[server], path, list,
                     [this, server, id](const Status& status) { note_list(server, id, status); });
}

void EpochShare::note_list(uint32_t server, const std::string& list, const Status& status) {
  std::vector<PolicyAction> actions;
  bool is_other = false;
  {
    MutexLock lock(mutex_);
    Server& of = servers_[server];
    of.is_asked = false;
    if (of.is_banned) return;
    if (!of.has_job) {
      of.retry_ns = clock_.now_ns();  // the job was lost meanwhile
    } else if (status.ok()) {
      is_other = list != list_id();  // another epoch has begun meanwhile
      of.list = is_other ? std::nullopt : std::optional(list);
      of.is_asked = is_other;
      if (!is_other) actions = come_up(server);
    } else {
      note_no_answer(server, status);
    }
    watched_.notify_all();
  }
  if (is_other) send_list(server);
  act(actions);
}

// Holds a request open that tells the server that this host is there (stay_path()). An older
// request, whose connection may have failed unnoticed, ends only after the new one has begun, so
// that the server never sees the host gone.
void EpochShare::stay(uint32_t server) {
  const auto leaves = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<bool>> before;
  {
    MutexLock lock(mutex_);
    before = std::exchange(servers_[server].leaves, leaves);
  }
  client_->tell(
      setup_.places[server], stay_path(expected_.job), leaves,
      [this, server, leaves](const Status& status) { note_stay_over(server, leaves, status); });
  if (before == nullptr) return;
  before->store(true);
  client_->drop_unwanted();
}

// The server has ended the job, or the connection has failed.
void EpochShare::note_stay_over(uint32_t server, const std::shared_ptr<std::atomic<bool>>& leaves,
                                const Status& status) {
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    Server& of = servers_[server];
    if (of.leaves != leaves) return;
    of.leaves = nullptr;
    if (!of.is_up) return;
    actions = lose(server, status.message());
    of.retry_ns = clock_.now_ns() + of.wait_ns;
    watched_.notify_all();
  }
  act(actions);
}

// A prep server that was started again has lost the job, and gets it again.
std::vector<PolicyAction> EpochShare::note_failure(StepNumber step, uint32_t server,
                                                   const Status& status) {
  Server& of = servers_[server];
  of.trouble = status.message();
  if (status.code() == Code::kCorrupt && ++of.damaged < kDamagedMost) {
    return tell(PolicyEvent::Kind::kServerFailed, step, server);
  }
  if (status.code() == Code::kCorrupt) {
    of.is_banned = true;
    return lose(server, "it sends damaged batches: " + status.message());
  }
  const bool is_alone = status.code() == Code::kIo || status.code() == Code::kInvalid ||
                        status.code() == Code::kNoMemory;
  if (is_alone) return tell(PolicyEvent::Kind::kServerFailed, step, server);
  return lose(server, status.message());
}

std::vector<PolicyAction> EpochShare::lose(uint32_t server, const std::string& why) {
  Server& of = servers_[server];
  of.trouble = why;
  if (of.is_banned && of.leaves != nullptr) {
    of.leaves->store(true);
    client_->drop_unwanted();
  }
  of.has_job = false;
  if (!std::exchange(of.is_up, false)) return {};
  // The server may just have been started again, so it is asked at once. A server that fails as
  // soon as it is up is asked later.
  const int64_t now_ns = clock_.now_ns();
  const bool was_long_up = now_ns - of.up_ns >= kRetryNs;
  of.wait_ns = was_long_up ? kRetryNs : std::clamp(of.wait_ns * 2, kRetryNs, kRetryMostNs);
  of.retry_ns = was_long_up ? now_ns : now_ns + of.wait_ns;
  for (auto at = fetches_.lower_bound({server, 0});
       at != fetches_.end() && at->first.first == server;) {
    at->second->store(true);
    at = fetches_.erase(at);
  }
  kept_.erase(kept_.lower_bound({server, 0}), kept_.lower_bound({server + 1, 0}));
  return tell(PolicyEvent::Kind::kServerDown, 0, server);
}

}  // namespace forebay::prep
