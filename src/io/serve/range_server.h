// A web server for ranges of files: what one machine of a job has, for the others
// (docs/decisions/0015-cache.md). It answers GET, and POST where there are questions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/origin.h"
#include "io/serve/held_range.h"
#include "io/serve/job_certificate.h"
#include "io/serve/prefetch.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::io::serve {

// A request that is answered with something that is made for it, instead of a file.
struct Question {
  std::string path;
  std::string body;          // empty unless it was sent with POST
  std::stop_token unwanted;  // the client has hung up, or the server ends
};
struct MadeAnswer {
  std::vector<Bytes> pieces;          // one after the other
  std::shared_ptr<const void> owner;  // of their memory
};

// What a server has. The server's threads call everything.
class ServedFiles {
 public:
  virtual ~ServedFiles() = default;
  // Begins to make the answer to a question, and calls `done` exactly once, in any thread; an error
  // becomes an answer that says so. False where the path names no question.
  virtual bool answer(const Question&, std::function<void(Result<MadeAnswer>)> /*done*/) const {
    return false;
  }
  // How many bytes the file at this path has; nothing where there is none. It must not wait.
  virtual std::optional<uint64_t> size(const std::string& path) const = 0;
  // Where the ranges, which ascend, do not overlap and lie inside of the file, can be sent from
  // without being read; nothing where a part of them cannot.
  virtual std::optional<std::vector<HeldRange>> find(
      const std::string& path, const std::vector<WantedRange>& ranges) const = 0;
  // The bytes of these ranges are wrong, and must not be held any more.
  virtual void forget(const std::string& /*path*/,
                      const std::vector<WantedRange>& /*ranges*/) const {}
  // Begins to fill the ranges, which ascend, do not overlap and lie inside of the file. Calls
  // `done` exactly once, in any thread; the memory stays until then.
  virtual void read(const std::string& path, std::vector<Range> ranges,
                    std::function<void(Status)> done) const = 0;
  // Begins to fetch these ranges, which ascend, do not overlap and lie inside of the file, before
  // somebody reads them. Waits for nothing.
  virtual PrefetchOutcome prefetch(const std::string&, const std::vector<WantedRange>&) const {
    return PrefetchOutcome::kFull;
  }
  // Whether these ranges are to be held here for another member.
  virtual bool may_hold(const std::string& /*path*/,
                        const std::vector<WantedRange>& /*ranges*/) const {
    return false;
  }
  // The same as read() for ranges that are held for another member: nobody else may be asked.
  virtual void hold(const std::string& path, std::vector<Range> ranges,
                    std::function<void(Status)> done) const {
    read(path, std::move(ranges), std::move(done));
  }
};

struct RangeServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: any that is free
  // Clients speak TLS 1.3 and show this certificate. Null: they speak plain HTTP, which is for this
  // machine's own addresses alone.
  std::shared_ptr<const JobCertificate> job = {};
  // How long an answer waits for a file that is not there, in the server's first minute: in a job
  // that begins, others may ask for a file a moment before it is known here.
  int64_t wait_ns = 0;
};

// What a server did since it began.
struct Served {
  uint64_t requests = 0;  // answered with ranges
  uint64_t refused = 0;   // malformed, of unknown files, or too many
  uint64_t bytes = 0;     // of ranges
};

// One thread serves all connections. Any thread may call anything.
class RangeServer {
 public:
  // `files` outlives the server. Errors: kInvalid for another machine's address without a
  // certificate; kUnavailable where the address or the port cannot be had,
  // kNoMemory.
  static Result<std::unique_ptr<RangeServer>> start(const RangeServerOptions& options,
                                                    const ServedFiles& files);
  // Closes all connections, and waits until no read is in flight.
  ~RangeServer();
  RangeServer(const RangeServer&) = delete;
  RangeServer& operator=(const RangeServer&) = delete;

  uint16_t port() const;
  Served served() const;

 private:
  class Loop;
  template <class Stream>
  friend class Connection;
  explicit RangeServer(std::unique_ptr<Loop> loop);
  const std::unique_ptr<Loop> loop_;
};

}  // namespace forebay::io::serve
