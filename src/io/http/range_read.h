// Reads ranges of one file with as many requests as it takes. Ranges that a server left out are
// requested again; bytes that came before a connection broke are not. A slow request is sent a
// second time (hedged), within a budget. The first of the two to bring bytes goes on, and the other
// is cut before any of these bytes are written (decision 0012).
#pragma once

#include <memory>

#include "base/mutex.h"
#include "io/http/range_answer.h"
#include "io/http/service.h"

namespace forebay::io::http {

// Keeps itself alive until it is done.
class RangeRead : public std::enable_shared_from_this<RangeRead> {
 public:
  // Same contract as ReadableFile::start(), but no range may be empty. `service` must stay until
  // `done` is called.
  static void start(const Service& service, const std::string& path, const Identity& known,
                    std::vector<Range> ranges, const ReadOptions& options,
                    std::function<void(Status)> done);

  // Only for start().
  RangeRead(const Service& service, std::string path, Identity known, const ReadOptions& options,
            std::function<void(Status)> done)
      : service_(service),
        path_(std::move(path)),
        known_(std::move(known)),
        options_(options),
        done_(std::move(done)) {}

 private:
  class Attempt;
  // Ranges that one request asks for, and further requests until all have come.
  struct PartialRequest {
    std::vector<Range> rest;
    Tries tries;
    bool timed_out = false;  // the last try timed out
    // The last request, and perhaps the hedge that repeats it. After the first request was sent,
    // only the client's thread uses this.
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
  std::atomic<bool> failed_ = false;  // then the requests of the other parts are cut

  base::Mutex mutex_;
  // Counts parts that are not done and hedges in flight, and start() while it adds parts.
  size_t users_ GUARDED_BY(mutex_) = 1;
  Status status_ GUARDED_BY(mutex_);  // the error of the first part that failed
};

}  // namespace forebay::io::http
