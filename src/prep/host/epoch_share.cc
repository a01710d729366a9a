#include "prep/host/epoch_share.h"

#include <algorithm>

#include "io/machine.h"
#include "prep/wire/job.h"

namespace forebay::prep {

using base::Code;
using base::MutexLock;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kGreetingNs = 5 * kSecondNs;  // how long greet() waits for the first answers
// The host also makes the first step of a server and one in so many later steps, and compares them.
constexpr uint64_t kCheckedOneOf = 100;

Expected expected_of(const EpochShareSetup& setup) {
  const feed::FeedOptions wire = wire_options(setup.options);
  Expected out = expected_batches(wire, 1);
  if (wire.tensor.dtype != setup.options.tensor.dtype) {
    out.from_bytes = std::make_shared<FromBytes>(setup.options, std::make_shared<ReceivedMemory>());
  }
  out.job = job_name(setup.job);
  out.dataset_samples = setup.dataset->sample_count();
  return out;
}

}  // namespace

EpochShare::EpochShare(EpochShareSetup setup, std::unique_ptr<PrepClient> client,
                       const io::Clock& clock)
    : setup_(std::move(setup)),
      expected_(expected_of(setup_)),
      clock_(clock),
      random_(static_cast<uint64_t>(clock.now_ns()), base::Purpose::kRetry),
      steps_each_(setup_.policy.steps_each),
      remade_(setup_.dataset, setup_.options, clock,
              [this](RemadeSteps::Remade remade) { take_remade(std::move(remade)); }),
      client_(std::move(client)) {
  MutexLock lock(mutex_);
  for (const ServerAddress& place : setup_.places) {
    servers_.emplace_back().place = place;
    before_.servers.emplace_back();
  }
  watcher_.start(1, [this](uint32_t) { watch(); });
}

EpochShare::~EpochShare() {
  pause();
  {
    MutexLock lock(mutex_);
    ended_ = true;
    watched_.notify_all();
  }
  watcher_.wait();
}

void EpochShare::begin(Start start) {
  pause();
  Table list = start.list == nullptr ? Table() : table_of(*start.list);
  std::vector<PolicyAction> actions;
  std::vector<uint32_t> to_tell;
  {
    MutexLock lock(mutex_);
    PolicyOptions options = setup_.policy;
    const StepNumber first = start.epoch * start.steps_each + start.step;
    options.first = first;
    options.over = std::move(start.over);
    options.steps_each = start.steps_each;
    list_epoch_ = start.epoch;
    if (start.list != nullptr) options.end = (start.epoch + 1) * start.steps_each;
    has_listed_ |= start.list != nullptr;
    // Rates measured before.
    options.host_step_ns = before_.host_step_s * 1e9;
    for (const ServerStats& server : before_.servers)
      options.server_steps_ns.push_back(server.step_s * 1e9);
    steps_each_ = start.steps_each;
    slots_ = start.slots;
    remade_begun_ = remade_.begin(start.steps_each, std::move(start.list));
    list_ = std::move(list);
    policy_ = Policy::make(options);
    next_asked_ = first;
    for (uint32_t server = 0; server < servers_.size(); ++server) {
      const ServerState::Next next = servers_[server].state.begin_epoch(list_id());
      if (next == ServerState::Next::kSendList) to_tell.push_back(server);
      if (next != ServerState::Next::kUse) continue;
      const auto more = tell(PolicyEvent::Kind::kServerUp, 0, server);
      actions.insert(actions.end(), more.begin(), more.end());
    }
  }
  act(actions);
  for (const uint32_t server : to_tell) send_list(server);
}

void EpochShare::pause() {
  std::vector<std::pair<uint32_t, StepPath>> kept;
  {
    MutexLock lock(mutex_);
    before_ = stats_now();
    policy_ = nullptr;
    for (const auto& [key, unwanted] : fetches_) unwanted->store(true);
    fetches_.clear();
    for (const auto& [server, step] : kept_) kept.emplace_back(server, path_of(step, Asked::kOver));
    kept_.clear();
    here_.clear();
    remade_begun_ = remade_.begin(steps_each_, nullptr);
    answered_.clear();
    consumer_asks_ = false;
    delay_.rests();
    next_.reset();
    failed_ = {};
  }
  client_->drop_unwanted();
  for (const auto& [server, path] : kept) client_->tell_over(place_of(server), path);
}

std::vector<PolicyAction> EpochShare::tell(PolicyEvent::Kind kind, StepNumber step,
                                           uint32_t server) {
  if (policy_ == nullptr) return {};
  const uint32_t keeps = kind == PolicyEvent::Kind::kServerUp ? servers_[server].state.keeps() : 0;
  auto actions = policy_->step({.kind = kind,
                                .now_ns = clock_.now_ns(),
                                .step = step,
                                .server = server,
                                .keeps = keeps,
                                .is_host_short = delay_.is_long()});
  for (const PolicyAction& action : actions) {
    if (action.kind == PolicyAction::Kind::kRescue) remade_.want(action.step, {.is_rescue = true});
    if (action.kind != PolicyAction::Kind::kGive) continue;
    next_ = action.step;
    // A server's copy that came after the host had begun the step may be here too.
    const auto answer = answered_.find(action.step);
    next_is_hosts_ = answer != answered_.end() && answer->second;
    given_.notify_all();
  }
  watched_.notify_all();
  return actions;
}

void EpochShare::act(const std::vector<PolicyAction>& actions) {
  for (const PolicyAction& action : actions) {
    switch (action.kind) {
      case PolicyAction::Kind::kFetch:
        ask(action.step, action.server);
        break;
      case PolicyAction::Kind::kForget:
        forget(action.step, action.server);
        break;
      case PolicyAction::Kind::kMake:
        ask_to_keep(action.step, action.server);
        break;
      case PolicyAction::Kind::kRescue:  // done by tell()
      case PolicyAction::Kind::kHostMakes:
      case PolicyAction::Kind::kHostSkips:
      case PolicyAction::Kind::kGive:
        break;
    }
  }
}

// A feed that starts again asks for the same steps again. A feed that is about to start elsewhere
// may still ask for later steps.
bool EpochShare::takes(uint64_t epoch, uint64_t step) {
  std::vector<PolicyAction> actions;
  bool takes = true;
  {
    MutexLock lock(mutex_);
    if (policy_ == nullptr) return true;
    const StepNumber wanted = number(epoch, step);
    if (wanted != next_asked_) {
      const auto before = answered_.find(wanted);
      return before != answered_.end() && before->second;
    }
    ++next_asked_;
    actions = tell(PolicyEvent::Kind::kHostAsks, wanted);
    for (const PolicyAction& action : actions) {
      if (action.kind == PolicyAction::Kind::kHostSkips && action.step == wanted) takes = false;
    }
    answered_[wanted] = takes;
    if (takes) before_.host_at = step;
  }
  act(actions);
  return takes;
}

void EpochShare::made(uint64_t epoch, uint64_t step) {
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    actions = tell(PolicyEvent::Kind::kHostMade, number(epoch, step));
  }
  act(actions);
}

bool EpochShare::wait_ms(int ms) {
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    if (!next_ && !std::exchange(consumer_asks_, true)) {
      delay_.asks();
      actions = tell(PolicyEvent::Kind::kConsumerAsks);
    }
  }
  act(actions);
  MutexLock lock(mutex_);
  const int64_t deadline_ns = clock_.now_ns() + ms * int64_t{1'000'000};
  while (!next_ && failed_.ok() && clock_.wait_until(mutex_, given_, deadline_ns)) {
  }
  return next_ || !failed_.ok();
}

Result<GivenStep> EpochShare::next() {
  constexpr int kLongMs = 1'000'000;
  while (!wait_ms(kLongMs)) {
  }
  MutexLock lock(mutex_);
  if (!failed_.ok()) {
    remade_.want(failed_step_, {.is_rescue = true});  // so that the caller can try again
    return tl::unexpected(std::exchange(failed_, {}));
  }
  GivenStep out{.step = *next_};
  if (!next_is_hosts_) out.batch = here_.at(*next_);
  return out;
}

void EpochShare::took() {
  MutexLock lock(mutex_);
  here_.erase(*next_);
  // Second copies of steps that were given are dropped too.
  if (policy_ != nullptr) {
    const StepNumber over = policy_->position();
    here_.erase(here_.begin(), here_.lower_bound(over));
    answered_.erase(answered_.begin(), answered_.lower_bound(over));
  }
  next_.reset();
  consumer_asks_ = false;
  delay_.works();
}

StepNumber EpochShare::position() const {
  MutexLock lock(mutex_);
  return policy_ == nullptr ? 0 : policy_->position();
}

std::vector<StepNumber> EpochShare::over() const {
  MutexLock lock(mutex_);
  return policy_ == nullptr ? std::vector<StepNumber>() : policy_->over();
}

// Notes that a request begins.
EpochShare::Request EpochShare::begin_request(StepNumber step, uint32_t server, Asked asked) {
  const auto unwanted = std::make_shared<std::atomic<bool>>(false);
  MutexLock lock(mutex_);
  fetches_[{server, step}] = unwanted;
  if (asked != Asked::kSend) kept_.insert({server, step});
  before_.servers_at = step % steps_each_;
  return {.unwanted = unwanted, .path = path_of(step, asked), .list = list_.name, .slots = slots_};
}

// Notes that a request has ended. False if nobody waits for it any longer; the same step may have
// been asked for again since.
bool EpochShare::end_request(StepNumber step, uint32_t server, const Unwanted& unwanted) {
  const auto found = fetches_.find({server, step});
  if (found == fetches_.end() || found->second != unwanted) return false;
  fetches_.erase(found);
  return true;
}

void EpochShare::ask(StepNumber step, uint32_t server) {
  const Request request = begin_request(step, server, Asked::kSend);
  Expected expected = expected_;
  expected.epoch = request.path.epoch;
  expected.step = request.path.step;
  expected.list = request.list;
  expected.samples = static_cast<uint32_t>(request.slots);
  expected.tensor_bytes *= request.slots;
  client_->fetch(
      place_of(server), expected, request.unwanted,
      [this, unwanted = request.unwanted, step, server](Result<PrepClient::Fetched> fetched) {
        take_fetched(unwanted, step, server, std::move(fetched));
      });
}

StepPath EpochShare::path_of(StepNumber step, Asked asked) const {
  return {.job = expected_.job,
          .epoch = step / steps_each_,
          .step = step % steps_each_,
          .asked = asked};
}

void EpochShare::ask_to_keep(StepNumber step, uint32_t server) {
  const ServerAddress place = place_of(server);
  const Asked asked = client_->sees_files(place) ? Asked::kKeepFile : Asked::kKeep;
  const Request request = begin_request(step, server, asked);
  client_->tell(place, text_of(request.path), request.unwanted,
                [this, unwanted = request.unwanted, step, server](const Status& status) {
                  take_kept(unwanted, step, server, status);
                });
}

void EpochShare::take_kept(const Unwanted& unwanted, StepNumber step, uint32_t server,
                           const Status& status) {
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    if (!end_request(step, server, unwanted)) return;
    if (status.ok()) {
      actions = tell(PolicyEvent::Kind::kServerKeeps, step, server);
    } else {
      kept_.erase({server, step});
      actions = note_failure(step, server, status);
    }
  }
  act(actions);
}

void EpochShare::forget(StepNumber step, uint32_t server) {
  bool is_fetched = false;
  std::optional<StepPath> kept;
  {
    MutexLock lock(mutex_);
    if (kept_.erase({server, step}) > 0) kept = path_of(step, Asked::kOver);
    const auto found = fetches_.find({server, step});
    is_fetched = found != fetches_.end();
    if (is_fetched) {
      found->second->store(true);
      fetches_.erase(found);
    }
  }
  if (is_fetched) client_->drop_unwanted();
  if (kept) client_->tell_over(place_of(server), *kept);
}

void EpochShare::take_fetched(const Unwanted& unwanted, StepNumber step, uint32_t server,
                              Result<PrepClient::Fetched> fetched) {
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    if (!end_request(step, server, unwanted)) return;
    kept_.erase({server, step});  // the server no longer keeps a step that it has sent
    if (!fetched) {
      actions = note_failure(step, server, fetched.error());
    } else {
      servers_[server].bytes += fetched->bytes;
      servers_[server].files += fetched->is_file ? 1 : 0;
      feed::Prepared batch{.batch = std::move(fetched->batch.batch),
                           .bad = std::move(fetched->batch.bad)};
      if (is_to_check(server)) {
        remade_.want(step, {.checks = server, .received = std::move(batch)});
        actions = tell(PolicyEvent::Kind::kServerChecked, step, server);
      } else {
        here_[step] = std::move(batch);
        actions = tell(PolicyEvent::Kind::kServerGave, step, server);
      }
    }
  }
  act(actions);
}

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
      servers_[server].state.ask();
    }
    client_->send_job(place_of(server), setup_.job, setup_.tables,
                      [this, greeting, server](const Result<uint32_t>& keeps) {
                        note_answer(server, keeps);
                        const Status status = base::status_of(keeps);
                        MutexLock lock(greeting->mutex);
                        const bool is_refused =
                            status.code() == Code::kInvalid || status.code() == Code::kUnsupported;
                        if (is_refused && greeting->failed.ok()) {
                          greeting->failed = status.at(place_of(server).name);
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

ServerAddress EpochShare::place_of(uint32_t server) const {
  MutexLock lock(mutex_);
  return servers_[server].place;
}

// A server that is started again may have another address, such as in another container.
void EpochShare::look_up_again(uint32_t server) {
  auto found = parse_server(place_of(server).name);
  if (!found) return;  // the old address is asked
  MutexLock lock(mutex_);
  servers_[server].place = std::move(*found);
}

void EpochShare::send_job(uint32_t server) {
  client_->send_job(place_of(server), setup_.job, setup_.tables,
                    [this, server](const Result<uint32_t>& keeps) { note_answer(server, keeps); });
}

void EpochShare::note_answer(uint32_t server, const Result<uint32_t>& keeps) {
  auto next = ServerState::Next::kNothing;
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    ServerState& state = servers_[server].state;
    next = state.answer_job(keeps, list_id(), has_listed_, clock_.now_ns());
    if (next == ServerState::Next::kUse) actions = tell(PolicyEvent::Kind::kServerUp, 0, server);
    watched_.notify_all();
  }
  if (next != ServerState::Next::kNothing) stay(server);
  if (next == ServerState::Next::kSendList) send_list(server);
  act(actions);
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
  client_->send_list(place_of(server), path, list,
                     [this, server, id](const Status& status) { note_list(server, id, status); });
}

void EpochShare::note_list(uint32_t server, const std::string& list, const Status& status) {
  auto next = ServerState::Next::kNothing;
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    next = servers_[server].state.answer_list(status, list, list_id(), clock_.now_ns());
    if (next == ServerState::Next::kUse) actions = tell(PolicyEvent::Kind::kServerUp, 0, server);
    watched_.notify_all();
  }
  if (next == ServerState::Next::kSendList) send_list(server);
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
      place_of(server), stay_path(expected_.job), leaves,
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
    if (!of.state.is_up()) return;
    actions = lose(server, status.message());
    of.state.wait_before_asking(clock_.now_ns());
    watched_.notify_all();
  }
  act(actions);
}

std::vector<PolicyAction> EpochShare::note_failure(StepNumber step, uint32_t server,
                                                   const Status& status) {
  ServerState& state = servers_[server].state;
  if (state.fail(status) == ServerState::Lost::kServer) return lose(server, state.trouble());
  return tell(PolicyEvent::Kind::kServerFailed, step, server);
}

std::vector<PolicyAction> EpochShare::lose(uint32_t server, const std::string& why) {
  Server& of = servers_[server];
  if (of.state.is_banned() && of.leaves != nullptr) {
    of.leaves->store(true);
    client_->drop_unwanted();
  }
  if (!of.state.lose(why, clock_.now_ns())) return {};
  for (auto at = fetches_.lower_bound({server, 0});
       at != fetches_.end() && at->first.first == server;) {
    at->second->store(true);
    at = fetches_.erase(at);
  }
  kept_.erase(kept_.lower_bound({server, 0}), kept_.lower_bound({server + 1, 0}));
  return tell(PolicyEvent::Kind::kServerDown, 0, server);
}

bool EpochShare::is_to_check(uint32_t server) {
  return servers_[server].checked == 0 || random_.below(kCheckedOneOf) == 0;
}

void EpochShare::take_remade(RemadeSteps::Remade remade) {
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    if (policy_ == nullptr || remade.begun != remade_begun_) return;
    ++before_.remade_steps;
    actions = remade.batch ? settle(std::move(remade)) : note_not_remade(std::move(remade));
  }
  act(actions);
}

// Takes a step that was prepared out of turn, to compare it, give it, or both.
std::vector<PolicyAction> EpochShare::settle(RemadeSteps::Remade remade) {
  auto& [begun, step, reason, batch] = remade;
  std::vector<PolicyAction> actions;
  const bool is_good = !reason.checks || are_equal(reason.received, *batch);
  // There is little memory for steps made out of turn, so the received copy is given.
  here_[step] = reason.checks && is_good ? std::move(reason.received) : std::move(*batch);
  if (reason.checks) {
    Server& server = servers_[*reason.checks];
    ++server.checked;
    if (!is_good) {
      server.state.ban();
      actions = lose(*reason.checks,
                     fmt::format("it sent a wrong batch (step {} of epoch {}), so it is no longer "
                                 "used",
                                 step % steps_each_, step / steps_each_));
    }
  }
  const auto more = tell(PolicyEvent::Kind::kRescued, step);
  actions.insert(actions.end(), more.begin(), more.end());
  return actions;
}

std::vector<PolicyAction> EpochShare::note_not_remade(RemadeSteps::Remade remade) {
  auto& [begun, step, reason, batch] = remade;
  const Status& status = batch.error();
  if (reason.is_rescue) {
    failed_ = status;
    failed_step_ = step;
    given_.notify_all();
    return {};
  }
  if (status.code() != Code::kNoMemory) {
    remade_.want(step, {.is_rescue = true});  // once more, without comparing
    return {};
  }
  // The memory for steps out of turn did not suffice, so the received copy is used unchecked.
  servers_[*reason.checks].state.set_trouble("a batch could not be compared: " + status.message());
  here_[step] = std::move(reason.received);
  return tell(PolicyEvent::Kind::kRescued, step);
}

int64_t EpochShare::next_ns() const {
  int64_t next = policy_ == nullptr ? INT64_MAX : policy_->wake_ns();
  for (const Server& server : servers_) next = std::min(next, server.state.ask_ns());
  return next;
}

// The watching thread: sends ticks to the policy, and sends the job again to servers that were
// down.
void EpochShare::watch() {
  io::work_in_background();
  for (;;) {
    std::vector<PolicyAction> actions;
    std::vector<uint32_t> to_ask;
    {
      MutexLock lock(mutex_);
      while (!ended_ && next_ns() > clock_.now_ns()) {
        const int64_t until = std::min(next_ns(), clock_.now_ns() + 3600 * kSecondNs);
        clock_.wait_until(mutex_, watched_, until);
      }
      if (ended_) return;
      if (policy_ != nullptr && policy_->wake_ns() <= clock_.now_ns()) {
        actions = tell(PolicyEvent::Kind::kTick);
      }
      for (uint32_t server = 0; server < servers_.size(); ++server) {
        ServerState& state = servers_[server].state;
        if (state.ask_ns() > clock_.now_ns()) continue;
        state.ask();
        to_ask.push_back(server);
      }
    }
    act(actions);
    for (const uint32_t server : to_ask) {
      look_up_again(server);
      send_job(server);
    }
  }
}

PrepStats EpochShare::stats() const {
  MutexLock lock(mutex_);
  return stats_now();
}

// Includes the figures from before the last begin() or pause().
PrepStats EpochShare::stats_now() const {
  PrepStats out = before_;
  if (policy_ != nullptr) {
    const PolicyShare host = policy_->host();
    out.host_steps += host.steps;
    out.host_step_s = host.step_ns / 1e9;
  }
  for (uint32_t number = 0; number < servers_.size(); ++number) {
    const Server& server = servers_[number];
    ServerStats& of = out.servers[number];
    of.name = server.place.name;
    of.is_up = server.state.is_up();
    of.trouble = server.state.trouble();
    of.checked = server.checked;
    of.bytes = server.bytes;
    of.files = server.files;
    if (policy_ == nullptr) continue;
    const PolicyShare share = policy_->server(number);
    of.steps += share.steps;
    of.late += share.late;
    of.step_s = share.step_ns / 1e9;
  }
  return out;
}

}  // namespace forebay::prep
