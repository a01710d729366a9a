// A job on the near side: its steps are prepared in the order in which they are asked for.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "base/crew.h"
#include "base/mutex.h"
#include "feed/step_maker.h"
#include "io/serve/range_server.h"
#include "prep/batch_folder.h"
#include "prep/paths.h"

namespace forebay::prep {

using base::Result;
using base::Status;

io::serve::MadeAnswer text_answer(std::string text);

// What all jobs of a near side count together.
struct WorkCounts {
  std::atomic<uint64_t> steps = 0;
  std::atomic<uint64_t> bytes = 0;
};

// Any thread may call anything.
class Work {
 public:
  using Done = std::function<void(Result<io::serve::MadeAnswer>)>;

  // `folder` is where batches are left as files; null: there is none.
  Work(std::string name, std::unique_ptr<feed::StepMaker> maker,
       std::shared_ptr<BatchFolder> folder, WorkCounts& counts);
  // Ends what is in work; whoever waits gets kCancelled.
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  const std::string& name() const { return name_; }
  uint64_t steps() const { return maker_->steps(); }
  // Prepares a step below steps(), and calls `done` once: with the batch or its file, an error, or
  // kCancelled when it is unwanted before. With Wish::kOver, drops the step's file.
  void ask(const StepPath& step, const std::stop_token& unwanted, Done done) EXCLUDES(mutex_);
  bool is_idle() const EXCLUDES(mutex_);
  // When somebody asked for something last (io::monotonic_ns()).
  int64_t asked_ns() const { return asked_ns_; }

 private:
  using Step = std::pair<uint64_t, uint64_t>;  // epoch, and step in it
  struct Waiting {
    Waiting(Wish what, Done then) : wish(what), done(std::move(then)) {}
    const Wish wish;
    const Done done;
    std::optional<std::stop_callback<std::function<void()>>> on_unwanted;
  };
  using Waiters = std::multimap<Step, std::shared_ptr<Waiting>>;

  void run() EXCLUDES(mutex_);
  void give(const feed::MadeStep& made) EXCLUDES(mutex_);
  void drop(const Step& step, const Waiting* who) EXCLUDES(mutex_);
  std::vector<std::shared_ptr<Waiting>> take(const Step& step) EXCLUDES(mutex_);
  void drop_file(const Step& step) EXCLUDES(mutex_);
  std::optional<io::serve::MadeAnswer> leave_file(const Step& step, const BatchBytes& bytes)
      EXCLUDES(mutex_);
  io::serve::MadeAnswer bytes_answer(const feed::MadeStep& made, BatchBytes bytes) const;

  // Told when the memory of a batch is given back, also after the work's end.
  struct Room {
    base::Mutex mutex;
    base::CondVar changed;
    uint64_t given_back GUARDED_BY(mutex) = 0;  // batches
    bool ended GUARDED_BY(mutex) = false;
  };

  const std::string name_;
  const std::unique_ptr<feed::StepMaker> maker_;
  const std::shared_ptr<BatchFolder> folder_;
  WorkCounts& counts_;
  const std::shared_ptr<Room> room_ = std::make_shared<Room>();
  std::atomic<int64_t> asked_ns_ = 0;
  mutable base::Mutex mutex_;
  Waiters waiting_ GUARDED_BY(mutex_);
  struct LeftFile {
    std::shared_ptr<const BatchFile> file;
    int64_t left_ns = 0;
  };
  std::map<Step, LeftFile> files_ GUARDED_BY(mutex_);
  base::Crew crew_;
};

}  // namespace forebay::prep
