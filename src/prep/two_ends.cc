#include "prep/two_ends.h"

#include <algorithm>

#include "io/machine.h"
#include "prep/job.h"

namespace forebay::prep {

using base::MutexLock;
using plan::ProngAction;
using plan::ProngEvent;
using plan::StepNumber;

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

Expected expected_of(const TwoEndsSetup& setup) {
  const feed::FeedOptions wire = wire_options(setup.options);
  Expected out = expected_batches(wire);
  if (wire.tensor.dtype != setup.options.tensor.dtype) {
    out.from_bytes = std::make_shared<FromBytes>(setup.options, std::make_shared<ReceivedMemory>());
  }
  out.job = job_name(setup.job);
  out.dataset_samples = setup.dataset->sample_count();
  return out;
}

}  // namespace

TwoEnds::TwoEnds(TwoEndsSetup setup, std::unique_ptr<NearClient> client, const io::Clock& clock)
    : setup_(std::move(setup)),
      expected_(expected_of(setup_)),
      clock_(clock),
      random_(static_cast<uint64_t>(clock.now_ns()), base::Purpose::kRetry),
      steps_each_(setup_.prongs.steps_each),
      client_(std::move(client)) {
  MutexLock lock(mutex_);
  for (const SidePlace& place : setup_.places) {
    sides_.emplace_back().place = place;
    before_.sides.emplace_back();
  }
  maker_crew_.reserve(1);  // so that ask_maker() finds it
  watcher_.start(1, [this](uint32_t) { watch(); });
}

TwoEnds::~TwoEnds() {
  pause();
  {
    MutexLock lock(mutex_);
    ended_ = true;
    watched_.notify_all();
  }
  watcher_.wait();
  if (maker_ != nullptr) maker_->stop();
  maker_crew_.wait();
}

void TwoEnds::begin(Start start) {
  pause();
  Table list = start.list == nullptr ? Table() : table_of(*start.list);
  std::vector<ProngAction> actions;
  std::vector<uint32_t> to_tell;
  {
    MutexLock lock(mutex_);
    plan::ProngOptions options = setup_.prongs;
    const StepNumber first = start.epoch * start.steps_each + start.step;
    options.first = first;
    options.over = std::move(start.over);
    options.steps_each = start.steps_each;
    list_epoch_ = start.epoch;
    if (start.list != nullptr) options.end = (start.epoch + 1) * start.steps_each;
    has_listed_ |= start.list != nullptr;
    // What was seen before.
    options.host_step_ns = before_.host_step_s * 1e9;
    for (const SideStats& side : before_.sides) options.side_steps_ns.push_back(side.step_s * 1e9);
    steps_each_ = start.steps_each;
    samples_ = std::move(start.list);
    list_ = std::move(list);
    prongs_ = plan::Prongs::make(options);
    next_asked_ = first;
    for (uint32_t side = 0; side < sides_.size(); ++side) {
      Side& of = sides_[side];
      if (!of.has_job || of.is_banned) continue;
      of.is_up = of.list == list_id();
      if (!of.is_up) {
        of.list.reset();
        if (!std::exchange(of.is_asked, true)) to_tell.push_back(side);
        continue;
      }
      const auto more = tell(ProngEvent::Kind::kSideUp, 0, side);
      actions.insert(actions.end(), more.begin(), more.end());
    }
  }
  act(actions);
  for (const uint32_t side : to_tell) send_list(side);
}

void TwoEnds::pause() {
  std::vector<std::pair<uint32_t, StepPath>> kept;
  {
    MutexLock lock(mutex_);
    before_ = stats_now();
    prongs_ = nullptr;
    for (const auto& [key, unwanted] : fetches_) unwanted->store(true);
    fetches_.clear();
    for (const auto& [side, step] : kept_) kept.emplace_back(side, path_of(step, Asked::kOver));
    kept_.clear();
    here_.clear();
    remade_.clear();
    to_remake_.clear();
    answered_.clear();
    consumer_asks_ = false;
    delay_.rests();
    next_.reset();
    failed_ = {};
  }
  client_->drop_unwanted();
  for (const auto& [side, path] : kept) client_->tell_over(setup_.places[side], path);
}

std::vector<ProngAction> TwoEnds::tell(ProngEvent::Kind kind, StepNumber step, uint32_t side) {
  if (prongs_ == nullptr) return {};
  const uint32_t keeps = kind == ProngEvent::Kind::kSideUp ? sides_[side].keeps : 0;
  auto actions = prongs_->step({.kind = kind,
                                .now_ns = clock_.now_ns(),
                                .step = step,
                                .side = side,
                                .keeps = keeps,
                                .is_host_short = delay_.is_long()});
  for (const ProngAction& action : actions) {
    if (action.kind == ProngAction::Kind::kRescue) remake(action.step, {.is_rescue = true});
    if (action.kind != ProngAction::Kind::kGive) continue;
    next_ = action.step;
    // A copy from elsewhere may be here too, which came when the host had begun already.
    const auto answer = answered_.find(action.step);
    next_is_hosts_ = answer != answered_.end() && answer->second;
    given_.notify_all();
  }
  watched_.notify_all();
  return actions;
}

void TwoEnds::act(const std::vector<ProngAction>& actions) {
  for (const ProngAction& action : actions) {
    switch (action.kind) {
      case ProngAction::Kind::kFetch:
        ask(action.step, action.side);
        break;
      case ProngAction::Kind::kForget:
        forget(action.step, action.side);
        break;
      case ProngAction::Kind::kMake:
        ask_to_keep(action.step, action.side);
        break;
      case ProngAction::Kind::kRescue:  // tell() has done it
      case ProngAction::Kind::kHostMakes:
      case ProngAction::Kind::kHostSkips:
      case ProngAction::Kind::kGive:
        break;
    }
  }
}

// A feed that begins again asks for the same steps again. One that is about to begin elsewhere may
// still ask for later ones.
bool TwoEnds::takes(uint64_t epoch, uint64_t step) {
  std::vector<ProngAction> actions;
  bool takes = true;
  {
    MutexLock lock(mutex_);
    if (prongs_ == nullptr) return true;
    const StepNumber wanted = number(epoch, step);
    if (wanted != next_asked_) {
      const auto before = answered_.find(wanted);
      return before != answered_.end() && before->second;
    }
    ++next_asked_;
    actions = tell(ProngEvent::Kind::kHostAsks, wanted);
    for (const ProngAction& action : actions) {
      if (action.kind == ProngAction::Kind::kHostSkips && action.step == wanted) takes = false;
    }
    answered_[wanted] = takes;
    if (takes) before_.host_at = step;
  }
  act(actions);
  return takes;
}

void TwoEnds::made(uint64_t epoch, uint64_t step) {
  std::vector<ProngAction> actions;
  {
    MutexLock lock(mutex_);
    actions = tell(ProngEvent::Kind::kHostMade, number(epoch, step));
  }
  act(actions);
}

bool TwoEnds::wait_ms(int ms) {
  std::vector<ProngAction> actions;
  {
    MutexLock lock(mutex_);
    if (!next_ && !std::exchange(consumer_asks_, true)) {
      delay_.asks();
      actions = tell(ProngEvent::Kind::kConsumerAsks);
    }
  }
  act(actions);
  MutexLock lock(mutex_);
  const int64_t deadline_ns = clock_.now_ns() + ms * int64_t{1'000'000};
  while (!next_ && failed_.ok() && clock_.wait_until(mutex_, given_, deadline_ns)) {
  }
  return next_ || !failed_.ok();
}

Result<GivenStep> TwoEnds::next() {
  constexpr int kLongMs = 1'000'000;
  while (!wait_ms(kLongMs)) {
  }
  MutexLock lock(mutex_);
  if (!failed_.ok()) {
    remake(failed_step_, {.is_rescue = true});  // the same step can be asked for again
    return tl::unexpected(std::exchange(failed_, {}));
  }
  GivenStep out{.step = *next_};
  if (!next_is_hosts_) out.batch = here_.at(*next_);
  return out;
}

void TwoEnds::took() {
  MutexLock lock(mutex_);
  here_.erase(*next_);
  // What came twice is dropped too.
  if (prongs_ != nullptr) {
    const StepNumber over = prongs_->position();
    here_.erase(here_.begin(), here_.lower_bound(over));
    answered_.erase(answered_.begin(), answered_.lower_bound(over));
  }
  next_.reset();
  consumer_asks_ = false;
  delay_.works();
}

StepNumber TwoEnds::position() const {
  MutexLock lock(mutex_);
  return prongs_ == nullptr ? 0 : prongs_->position();
}

std::vector<StepNumber> TwoEnds::over() const {
  MutexLock lock(mutex_);
  return prongs_ == nullptr ? std::vector<StepNumber>() : prongs_->over();
}

// Notes a request that begins.
TwoEnds::Request TwoEnds::begin_request(StepNumber step, uint32_t side, Asked asked) {
  const auto unwanted = std::make_shared<std::atomic<bool>>(false);
  MutexLock lock(mutex_);
  fetches_[{side, step}] = unwanted;
  if (asked != Asked::kSend) kept_.insert({side, step});
  before_.near_at = step % steps_each_;
  return {.unwanted = unwanted, .path = path_of(step, asked), .list = list_.name};
}

// Notes that a request has ended. False where nobody waits for it any more; the same step may have
// been asked for again since.
bool TwoEnds::end_request(StepNumber step, uint32_t side, const Unwanted& unwanted) {
  const auto found = fetches_.find({side, step});
  if (found == fetches_.end() || found->second != unwanted) return false;
  fetches_.erase(found);
  return true;
}

void TwoEnds::ask(StepNumber step, uint32_t side) {
  const Request request = begin_request(step, side, Asked::kSend);
  Expected expected = expected_;
  expected.epoch = request.path.epoch;
  expected.step = request.path.step;
  expected.list = request.list;
  client_->fetch(
      setup_.places[side], expected, request.unwanted,
      [this, unwanted = request.unwanted, step, side](Result<NearClient::Fetched> fetched) {
        take_fetched(unwanted, step, side, std::move(fetched));
      });
}

StepPath TwoEnds::path_of(StepNumber step, Asked asked) const {
  return {.job = expected_.job,
          .epoch = step / steps_each_,
          .step = step % steps_each_,
          .asked = asked};
}

void TwoEnds::ask_to_keep(StepNumber step, uint32_t side) {
  const SidePlace& place = setup_.places[side];
  const Asked asked = client_->sees_files(place) ? Asked::kKeepFile : Asked::kKeep;
  const Request request = begin_request(step, side, asked);
  client_->tell(place, text_of(request.path), request.unwanted,
                [this, unwanted = request.unwanted, step, side](const Status& status) {
                  take_kept(unwanted, step, side, status);
                });
}

void TwoEnds::take_kept(const Unwanted& unwanted, StepNumber step, uint32_t side,
                        const Status& status) {
  std::vector<ProngAction> actions;
  {
    MutexLock lock(mutex_);
    if (!end_request(step, side, unwanted)) return;
    if (status.ok()) {
      actions = tell(ProngEvent::Kind::kSideKeeps, step, side);
    } else {
      kept_.erase({side, step});
      actions = note_failure(step, side, status);
    }
  }
  act(actions);
}

void TwoEnds::forget(StepNumber step, uint32_t side) {
  bool is_fetched = false;
  std::optional<StepPath> kept;
  {
    MutexLock lock(mutex_);
    if (kept_.erase({side, step}) > 0) kept = path_of(step, Asked::kOver);
    const auto found = fetches_.find({side, step});
    is_fetched = found != fetches_.end();
    if (is_fetched) {
      found->second->store(true);
      fetches_.erase(found);
    }
  }
  if (is_fetched) client_->drop_unwanted();
  if (kept) client_->tell_over(setup_.places[side], *kept);
}

void TwoEnds::take_fetched(const Unwanted& unwanted, StepNumber step, uint32_t side,
                           Result<NearClient::Fetched> fetched) {
  std::vector<ProngAction> actions;
  {
    MutexLock lock(mutex_);
    if (!end_request(step, side, unwanted)) return;
    kept_.erase({side, step});  // what is sent is not kept any more
    if (!fetched) {
      actions = note_failure(step, side, fetched.error());
    } else {
      sides_[side].bytes += fetched->bytes;
      sides_[side].files += fetched->is_file ? 1 : 0;
      feed::Prepared batch{.batch = std::move(fetched->batch.batch),
                           .bad = std::move(fetched->batch.bad)};
      if (is_to_check(side)) {
        remake(step, {.checks = side, .received = std::move(batch)});
        actions = tell(ProngEvent::Kind::kSideChecked, step, side);
      } else {
        here_[step] = std::move(batch);
        actions = tell(ProngEvent::Kind::kSideGave, step, side);
      }
    }
  }
  act(actions);
}

int64_t TwoEnds::next_ns() const {
  int64_t next = prongs_ == nullptr ? INT64_MAX : prongs_->wake_ns();
  for (const Side& side : sides_) {
    if (!side.is_up && !side.is_asked && !side.is_banned) next = std::min(next, side.retry_ns);
  }
  return next;
}

// Tells the policy that its time has come, and asks sides that were gone.
void TwoEnds::watch() {
  io::work_in_background();
  for (;;) {
    std::vector<ProngAction> actions;
    std::vector<uint32_t> to_ask;
    bool is_to_remake = false;
    {
      MutexLock lock(mutex_);
      while (!ended_ && to_remake_.empty() && next_ns() > clock_.now_ns()) {
        const int64_t until = std::min(next_ns(), clock_.now_ns() + 3600 * kSecondNs);
        clock_.wait_until(mutex_, watched_, until);
      }
      if (ended_) return;
      is_to_remake = !to_remake_.empty();
      if (prongs_ != nullptr && prongs_->wake_ns() <= clock_.now_ns()) {
        actions = tell(ProngEvent::Kind::kTick);
      }
      for (uint32_t side = 0; side < sides_.size(); ++side) {
        Side& of = sides_[side];
        if (of.is_up || of.is_asked || of.is_banned || of.retry_ns > clock_.now_ns()) continue;
        of.is_asked = true;
        to_ask.push_back(side);
      }
    }
    act(actions);
    if (is_to_remake) ask_maker();
    for (const uint32_t side : to_ask) send_job(side);
  }
}

PrepStats TwoEnds::stats() const {
  MutexLock lock(mutex_);
  return stats_now();
}

// Counts also what was done before the last begin() or pause().
PrepStats TwoEnds::stats_now() const {
  PrepStats out = before_;
  if (prongs_ != nullptr) {
    const plan::ProngShare host = prongs_->host();
    out.host_steps += host.steps;
    out.host_step_s = host.step_ns / 1e9;
  }
  for (uint32_t number = 0; number < sides_.size(); ++number) {
    const Side& side = sides_[number];
    SideStats& of = out.sides[number];
    of.name = side.place.name;
    of.is_up = side.is_up;
    of.trouble = side.trouble;
    of.checked = side.checked;
    of.bytes = side.bytes;
    of.files = side.files;
    if (prongs_ == nullptr) continue;
    const plan::ProngShare share = prongs_->side(number);
    of.steps += share.steps;
    of.late += share.late;
    of.step_s = share.step_ns / 1e9;
  }
  return out;
}

}  // namespace forebay::prep
