#include "io/s3/credentials.h"

#include <algorithm>
#include <limits>
#include <system_error>

namespace forebay::io::s3 {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr int64_t kSecond = 1'000'000'000;
// New credentials are fetched this long before the old ones expire.
constexpr int64_t kAheadNs = 300 * kSecond;
// How often the thread checks whether the wall clock has gone ahead of the monotonic one.
constexpr int64_t kLookNs = 60 * kSecond;
constexpr int64_t kPauseNs = kSecond;  // after a first failed attempt; doubled after each other one
constexpr int64_t kLongestPauseNs = 60 * kSecond;

// How long new credentials are used before the next ones are fetched: until 5 minutes before they
// expire, or half of their lifetime if that is later.
int64_t until_next(int64_t lifetime_ns) {
  return std::max({lifetime_ns - kAheadNs, lifetime_ns / 2, kSecond});
}

}  // namespace

bool CredentialSource::Times::reached_by(const Clock& clock) const {
  return clock.now_ns() >= now_ns || clock.wall_ns() >= wall_ns;
}

CredentialSource::Times CredentialSource::after(int64_t ns) const {
  return {.now_ns = clock_.now_ns() + ns, .wall_ns = clock_.wall_ns() + ns};
}

Result<std::unique_ptr<CredentialSource>> CredentialSource::open(Settings settings,
                                                                 Surroundings around,
                                                                 const Clock& clock) {
  ASSIGN_OR_RETURN(ChainResult first,
                   find_credentials({.settings = settings, .around = around, .clock = clock}));
  std::unique_ptr<CredentialSource> source(
      new CredentialSource(std::move(settings), std::move(around), clock, first.step));
  MutexLock lock(source->mutex_);
  source->take_found(std::move(first.found));
  if (source->due_) RETURN_IF_ERROR(source->begin_thread());
  return source;
}

CredentialSource::CredentialSource(Settings settings, Surroundings around, const Clock& clock,
                                   ChainStep step)
    : settings_(std::move(settings)), around_(std::move(around)), clock_(clock), step_(step) {}

CredentialSource::~CredentialSource() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    thread.swap(thread_);
  }
  stop_.request_stop();
  if (thread.joinable()) thread.join();
}

Result<std::shared_ptr<const Credentials>> CredentialSource::current() const {
  MutexLock lock(mutex_);
  if (failure_.ok() || !end_ || !end_->reached_by(clock_)) return current_;
  return fail(
      failure_.code(),
      "the credentials have expired, and fetching new ones failed: {}; repair that, or use other "
      "credentials",
      failure_.message());
}

bool CredentialSource::refused(const std::shared_ptr<const Credentials>& used) {
  if (!step_.may_change) return false;
  MutexLock lock(mutex_);
  if (used != current_ || refused_) return true;
  if (!begin_thread().ok()) return false;
  refused_ = true;
  const int64_t earliest_ns = fetched_ns_ + std::max(pause_ns_, kPauseNs);
  due_ = after(std::max<int64_t>(earliest_ns - clock_.now_ns(), 0));
  changed_.notify_all();
  return true;
}

uint64_t CredentialSource::fetches() const {
  MutexLock lock(mutex_);
  return fetches_;
}

Status CredentialSource::begin_thread() try {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return {};
} catch (const std::system_error& error) {
  return fail(Code::kNoMemory,
              "cannot start the thread that keeps credentials fresh ({}); allow more processes "
              "(ulimit -u)",
              error.what());
}

void CredentialSource::run() {
  while (wait_until_due()) {
    take(step_.ask(
        {.settings = settings_, .around = around_, .clock = clock_, .stop = stop_.get_token()}));
  }
}

// Returns false when the source is to end.
bool CredentialSource::wait_until_due() {
  MutexLock lock(mutex_);
  while (!closed_ && !(due_ && due_->reached_by(clock_))) {
    if (due_) {
      clock_.wait_until(mutex_, changed_, std::min(due_->now_ns, clock_.now_ns() + kLookNs));
    } else {
      changed_.wait(mutex_);
    }
  }
  return !closed_;
}

void CredentialSource::take(Result<StepAnswer> answer) {
  MutexLock lock(mutex_);
  ++fetches_;
  pause_ns_ = std::clamp(2 * pause_ns_, kPauseNs, kLongestPauseNs);
  if (answer && answer->found) return take_found(std::move(*answer->found));
  failure_ = answer ? Status(fail(Code::kUnavailable, "the {}: {}", step_.name, answer->why_not))
                    : answer.error().at(step_.name);
  fetched_ns_ = clock_.now_ns();
  refused_ = false;
  // If the clock jumps, a failing service must not be asked in a tight loop.
  due_ = Times{.now_ns = fetched_ns_ + pause_ns_, .wall_ns = std::numeric_limits<int64_t>::max()};
}

void CredentialSource::take_found(FoundCredentials found) {
  failure_ = {};
  fetched_ns_ = clock_.now_ns();
  refused_ = false;
  if (!current_ || !(*current_ == found.credentials)) {
    current_ = std::make_shared<const Credentials>(std::move(found.credentials));
    pause_ns_ = 0;
  }
  end_.reset();
  due_.reset();
  if (!found.lifetime_ns) return;
  end_ = after(*found.lifetime_ns);
  due_ = after(until_next(*found.lifetime_ns));
}

}  // namespace forebay::io::s3
