// A web server for ranges of files, by which a machine of a job gives the others what it has
// (docs/decisions/0015-cache.md). It answers GET, and POST for questions.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/origin.h"
#include "io/secret.h"
#include "io/serve/held_range.h"
#include "io/serve/job_certificate.h"
#include "io/serve/prefetch.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::io::serve {

// A request whose answer is made for it, instead of read from a file.
struct Question {
  std::string path;
  std::string body;          // empty unless it was sent with POST
  std::stop_token unwanted;  // the client has hung up, or the server ends
};
struct MadeAnswer {
  std::vector<Bytes> pieces;          // one after the other
  std::shared_ptr<const void> owner;  // of their memory
};

// The files of a server. The server's thread calls everything.
class ServedFiles {
 public:
  virtual ~ServedFiles() = default;
  // Starts to make the answer to a question, and calls `done` exactly once, in any thread; an error
  // becomes an HTTP error. False if the path names no question.
  virtual bool answer(const Question&, std::function<void(Result<MadeAnswer>)> /*done*/) const {
    return false;
  }
  // How many bytes the file at this path has; nothing if there is no such file. It must not block.
  virtual std::optional<uint64_t> size(const std::string& path) const = 0;
  // The held pieces of the ranges, which ascend, do not overlap and lie inside the file. Nothing if
  // a part of them is not held.
  virtual std::optional<std::vector<HeldRange>> find(
      const std::string& path, const std::vector<WantedRange>& ranges) const = 0;
  // Drops the held bytes of these ranges, which are wrong.
  virtual void forget(const std::string& /*path*/,
                      const std::vector<WantedRange>& /*ranges*/) const {}
  // Starts to fill the ranges, which ascend, do not overlap and lie inside the file. Calls `done`
  // exactly once, in any thread; the memory stays until then.
  virtual void read(const std::string& path, std::vector<Range> ranges,
                    std::function<void(Status)> done) const = 0;
  // Starts to fetch these ranges, which ascend, do not overlap and lie inside the file, before they
  // are read. It must not block.
  virtual PrefetchOutcome prefetch(const std::string&, const std::vector<WantedRange>&) const {
    return PrefetchOutcome::kFull;
  }
  // Whether this server should hold these ranges for another member.
  virtual bool may_hold(const std::string& /*path*/,
                        const std::vector<WantedRange>& /*ranges*/) const {
    return false;
  }
  // Like read(), for ranges that are held for another member. No further member may be asked for
  // them.
  virtual void hold(const std::string& path, std::vector<Range> ranges,
                    std::function<void(Status)> done) const {
    read(path, std::move(ranges), std::move(done));
  }
};

struct RangeServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: any free port
  // Clients must speak TLS 1.3 and show this certificate. Null: plain HTTP, which is allowed on
  // loopback addresses only.
  std::shared_ptr<const JobCertificate> job = {};
  // For plain HTTP: only clients with this secret are answered. Empty: all users of this machine
  // are.
  Secret local_secret = {};
  // How long an answer waits for an unknown file, during the server's first minute: when a job
  // begins, others may ask for a file a moment before it is known here.
  int64_t wait_ns = 0;
};

// Counts of what a server did since it began.
struct Served {
  uint64_t requests = 0;  // answered with ranges
  uint64_t refused = 0;   // malformed, for unknown files, or too many
  uint64_t bytes = 0;     // of ranges
};

// One thread serves all connections. Any thread may call anything.
class RangeServer {
 public:
  // `files` must outlive the server. Errors: kInvalid for an address that is not a loopback one,
  // without a certificate; kUnavailable if the server cannot listen there; kNoMemory.
  static Result<std::unique_ptr<RangeServer>> start(const RangeServerOptions& options,
                                                    const ServedFiles& files);
  // Closes all connections, and waits for the reads in flight.
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
