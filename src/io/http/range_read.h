// Reads ranges of one file through as many requests as it takes. What a server left out, or sent
// before a connection broke, is not asked for again. A request that is slow is sent a second time
// (hedged), within a budget; the first of the two whose bytes come goes on, and the other one is
// cut before any of these bytes are written (decision 0012).
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
  class Attempt;
  // Ranges that are asked for in one request, and again until all have come.
  struct PartialRequest {
    std::vector<Range> rest;
    Tries tries;
    bool timed_out = false;  // the last try did
    // The last request, and perhaps the hedge that repeats it. Only the client's thread touches it
    // after the first request was sent.
    std::vector<std::shared_ptr<Attempt>> in_flight = {};
  };

  void add(std::vector<Range> ranges) EXCLUDES(mutex_);
  void send(const std::shared_ptr<PartialRequest>& part, int64_t wait_ns);
  void hedge(const std::shared_ptr<PartialRequest>& part);
  void start(const std::shared_ptr<PartialRequest>& part, std::vector<Range> ranges,
             Request request, Why why);
  void take(const std::shared_ptr<PartialRequest>& part, const std::shared_ptr<Attempt>& attempt,
            const Outcome& outcome);
  void take_last(const std::shared_ptr<PartialRequest>& part, const Attempt& attempt,
                 const Outcome& outcome);
  Result<Request> request(const std::vector<Range>& ranges) const;
  void finish(const Status& status) EXCLUDES(mutex_);

  const Service& service_;
  const std::string path_;
  const Identity known_;
  const ReadOptions options_;
  const std::function<void(Status)> done_;
  std::atomic<bool> failed_ = false;  // the requests of the other parts are cut

  base::Mutex mutex_;
  // Whoever adds parts at the moment, parts that are not done, and hedges in flight.
  size_t users_ GUARDED_BY(mutex_) = 1;
  Status status_ GUARDED_BY(mutex_);  // of the first part that failed
};

}  // namespace forebay::io::http
