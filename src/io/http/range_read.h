// Reads ranges of one file through as many requests as it takes. What a server left out, or sent
// before a connection broke, is not asked for again.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "io/http/range_answer.h"
#include "io/http/service.h"

namespace forebay::io::http {

// Keeps itself alive until it is done.
class RangeRead : public std::enable_shared_from_this<RangeRead> {
 public:
  // The contract is that of ReadableFile::start(); no range is empty. `service` stays until `done`.
  static void start(const Service& service, const std::string& path, const Identity& known,
                    std::vector<Range> ranges, const ReadOptions& options,
                    std::function<void(Status)> done);

  // Not for callers.
  RangeRead(const Service& service, std::string path, Identity known, const ReadOptions& options,
            std::function<void(Status)> done)
      : service_(service),
        path_(std::move(path)),
        known_(std::move(known)),
        options_(options),
        done_(std::move(done)) {}

 private:
  // Ranges that are asked for in one request, and again until all have come.
  struct Part {
    std::vector<Range> rest;
    int tries = 0;  // requests sent so far
    int vain = 0;   // those since bytes last came
    int64_t begin_ns = 0;
    std::string region = {};  // of the last request
  };
  class Answer;

  void add(std::vector<Range> ranges) EXCLUDES(mutex_);
  void send(std::shared_ptr<Part> part, int64_t wait_ns);
  void take(const std::shared_ptr<Part>& part, const Answer& answer, const Outcome& outcome);
  void finish(Status status) EXCLUDES(mutex_);

  const Service& service_;
  const std::string path_;
  const Identity known_;
  const ReadOptions options_;
  const std::function<void(Status)> done_;
  std::stop_source failed_;  // the other parts send nothing more

  base::Mutex mutex_;
  // One for whoever adds parts at the moment.
  size_t parts_left_ GUARDED_BY(mutex_) = 1;
  Status status_ GUARDED_BY(mutex_);  // of the first part that failed
};

}  // namespace forebay::io::http
