// A job on a prep server: prepares a host's steps in the order in which the host asks for them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "base/crew.h"
#include "base/mutex.h"
#include "feed/step_maker.h"
#include "io/serve/range_server.h"
#include "prep/server/kept_steps.h"
#include "prep/server/left_files.h"
#include "prep/wire/paths.h"

namespace forebay::prep {

using base::Result;
using base::Status;

io::serve::MadeAnswer text_answer(std::string text);

// Counts of all jobs of a prep server together.
struct ServerCounts {
  std::atomic<uint64_t> steps = 0;
  std::atomic<uint64_t> bytes = 0;
};

// Any thread may call anything.
class ServerJob {
 public:
  using Done = std::function<void(Result<io::serve::MadeAnswer>)>;

  // `options` are the maker's. Batches are left as files in `folder`; null: there is none.
  ServerJob(std::string name, const feed::FeedOptions& options,
            std::unique_ptr<feed::StepMaker> maker, std::shared_ptr<BatchFolder> folder,
            ServerCounts& counts);
  // Ends all work; waiting requests get kCancelled.
  ~ServerJob();
  ServerJob(const ServerJob&) = delete;
  ServerJob& operator=(const ServerJob&) = delete;

  const std::string& name() const { return name_; }
  // How many finished steps can be kept in memory, and in a folder with room for `bytes`.
  uint32_t keeps() const { return kept_steps_in(kept_bytes_max_, step_bytes_); }
  uint32_t keeps_in(uint64_t bytes) const { return kept_steps_in(bytes, step_bytes_); }
  // From now on, steps are those of the path's epoch, whose samples are `list`; if `list` is null,
  // they are those of the job's own epochs. Requests that wait for a step get kCancelled, and kept
  // steps are dropped. Errors, after which nothing has changed: those of feed::check_list();
  // kInvalid if the list's batches differ in size.
  Status use_list(const ListPath& path, std::shared_ptr<const feed::SampleList> list)
      EXCLUDES(mutex_);
  // Answers a request for a step, and calls `done` once: with the batch, its file's name or an
  // empty answer; with an error; or with kCancelled if the answer is unwanted before. Unless the
  // step is kept, or Asked::kOver, it is prepared first.
  void ask(const StepPath& path, const std::stop_token& unwanted, Done done) EXCLUDES(mutex_);
  // The host is there until this is unwanted; then `left` is called once. `left` must not wait
  // until this job is destroyed.
  void stay(const std::stop_token& unwanted, Done done, std::function<void()> left)
      EXCLUDES(mutex_);
  // Drops all kept steps, because the host has lost track of them.
  void drop_kept() EXCLUDES(mutex_);
  bool has_host() const EXCLUDES(mutex_);
  // Whether no request waits, and no host stays.
  bool is_idle() const EXCLUDES(mutex_);
  // When the last request for a step came (io::monotonic_ns()).
  int64_t asked_ns() const { return asked_ns_; }

 private:
  using Step = KeptSteps::Step;
  // stay() waits for this step, which never comes.
  static constexpr Step kStay{UINT64_MAX, 0};
  struct Waiting {
    Waiting(Asked what, Done then) : asked(what), done(std::move(then)) {}
    const Asked asked;
    const Done done;
    std::function<void()> left = {};  // for kStay
    std::optional<std::stop_callback<std::function<void()>>> on_unwanted;
  };
  using Waiters = std::multimap<Step, std::shared_ptr<Waiting>>;

  Status check(const Step& step) const REQUIRES(mutex_);
  std::optional<io::serve::MadeAnswer> answer_at_once(const Step& step, Asked asked)
      EXCLUDES(mutex_);
  void wait_for(const Step& step, const std::shared_ptr<Waiting>& who,
                const std::stop_token& unwanted) EXCLUDES(mutex_);
  void run() EXCLUDES(mutex_);
  bool has_dropped_oldest() EXCLUDES(mutex_);
  io::serve::MadeAnswer answer_of(const feed::Prepared& made, BatchBytes bytes) const;
  void give(const feed::MadeStep& made) EXCLUDES(mutex_);
  Result<io::serve::MadeAnswer> answer_to(Asked asked, const Step& step, const BatchBytes& bytes,
                                          const io::serve::MadeAnswer& whole) EXCLUDES(mutex_);
  void drop(const Step& step, const Waiting* who) EXCLUDES(mutex_);
  // The requests that wait for a step that was made.
  struct Asking {
    std::vector<std::shared_ptr<Waiting>> all;
    std::string list;  // the name of the step's list of samples; empty: the job's own samples
  };
  Asking take(const feed::MadeStep& made) EXCLUDES(mutex_);

  // Notified when the memory of a batch is given back, even after this job is destroyed.
  struct ReturnedMemory {
    base::Mutex mutex;
    base::CondVar changed;
    uint64_t given_back GUARDED_BY(mutex) = 0;  // batches
    bool ended GUARDED_BY(mutex) = false;
  };

  const std::string name_;
  const uint64_t kept_bytes_max_;
  const uint64_t step_bytes_;
  const std::unique_ptr<feed::StepMaker> maker_;
  ServerCounts& counts_;
  const std::shared_ptr<ReturnedMemory> returned_ = std::make_shared<ReturnedMemory>();
  std::atomic<int64_t> asked_ns_;
  mutable base::Mutex mutex_;
  LeftFiles files_;
  Waiters waiting_ GUARDED_BY(mutex_);
  ListPath list_ GUARDED_BY(mutex_);       // its table is empty if the epochs are the job's own
  uint64_t begun_ GUARDED_BY(mutex_) = 0;  // what the maker's begin() returned for list_
  KeptSteps kept_ GUARDED_BY(mutex_);
  base::Crew crew_;
};

}  // namespace forebay::prep
