// The keys that sign requests to a store with S3's interface: where they come from, and how they
// are kept fresh. The order in which places are looked at is in io/s3/chain.h; docs/remote.md
// describes it for users.
#pragma once

#include <memory>
#include <stop_token>
#include <thread>

#include "io/clock.h"
#include "io/s3/chain.h"
#include "io/s3/settings.h"

namespace forebay::io::s3 {

// Any thread may call anything. A background thread fetches new credentials 5 minutes before the
// old ones expire, or after they were refused. It is started only for credentials that expire or
// were refused. A forked process does not have this thread and must open a source of its own.
class CredentialSource {
 public:
  // Finds the first credentials, which may take some seconds. The clock must outlive the source.
  // Errors: those of find_credentials(), kNoMemory if no thread can be started.
  static Result<std::unique_ptr<CredentialSource>> open(Settings settings, Surroundings around,
                                                        const Clock& clock = monotonic_clock());
  // A request in flight ends within about a second, or when the resolution of its host's name ends.
  ~CredentialSource();
  CredentialSource(const CredentialSource&) = delete;
  CredentialSource& operator=(const CredentialSource&) = delete;

  // Never waits for the network. Errors: that of the last attempt to fetch new credentials, if the
  // old ones have expired.
  Result<std::shared_ptr<const Credentials>> current() const EXCLUDES(mutex_);
  // Tells that a server refused these credentials as expired or unknown. If the credentials can
  // change, new ones are fetched soon, and profile and token files are read again. Returns false if
  // they cannot change, or no thread can be started. As long as current() returns the same pointer,
  // another request is useless.
  bool refused(const std::shared_ptr<const Credentials>& used) EXCLUDES(mutex_);
  // How many fetches of new credentials have ended, with or without success.
  uint64_t fetches() const EXCLUDES(mutex_);

 private:
  // A time on both clocks, which has come when one of them has reached it. While a machine sleeps,
  // only its wall clock goes on; but a wall clock may be set back.
  struct Times {
    int64_t now_ns = 0;
    int64_t wall_ns = 0;
    bool reached_by(const Clock& clock) const;
  };

  CredentialSource(Settings settings, Surroundings around, const Clock& clock, ChainStep step);
  Status begin_thread() REQUIRES(mutex_);
  void run() EXCLUDES(mutex_);
  bool wait_until_due() EXCLUDES(mutex_);
  void take(Result<StepAnswer> answer) EXCLUDES(mutex_);
  void take_found(FoundCredentials found) REQUIRES(mutex_);
  Times after(int64_t ns) const;

  const Settings settings_;
  const Surroundings around_;
  const Clock& clock_;
  // The place that gave the first credentials. Later ones come from there too, because another
  // place would give another identity.
  const ChainStep step_;
  std::stop_source stop_;

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  std::shared_ptr<const Credentials> current_ GUARDED_BY(mutex_);
  std::optional<Times> end_ GUARDED_BY(mutex_);  // when the current ones expire, if they do
  std::optional<Times> due_ GUARDED_BY(mutex_);  // when new ones are fetched, if at all
  Status failure_ GUARDED_BY(mutex_);            // ok if the last attempt gave credentials
  int64_t fetched_ns_ GUARDED_BY(mutex_) = 0;    // when the last attempt ended
  int64_t pause_ns_ GUARDED_BY(mutex_) = 0;      // how long a service is left alone after a failure
  uint64_t fetches_ GUARDED_BY(mutex_) = 0;
  bool refused_ GUARDED_BY(mutex_) = false;  // whether the current ones were refused
  bool closed_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace forebay::io::s3
