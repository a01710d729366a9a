// A web server or an object store, as a place of objects with paths: how a path becomes a request
// (Protocol), and what all users of the service share (Service).
#pragma once

#include <atomic>
#include <memory>

#include "base/limits.h"
#include "io/http/retry.h"
#include "io/per_process.h"

namespace forebay::io::http {

struct ServiceOptions {
  ClientOptions client;
  RetryOptions retry;
  // The budget for hedges, which repeat slow range requests: at most one request in twenty, and a
  // few more at the beginning.
  BudgetOptions hedges = {.most = 8, .per_success = 0.05};
};

// The region and keys that a request was made with. An answer may say that they are out of date.
struct Basis {
  std::string region = {};
  std::shared_ptr<const void> keys = {};  // Signing::owner; null if the request is not signed
  uint64_t fetches = 0;                   // Signing::fetches
};
Basis basis_of(const Request& request);

// What may help after an answer with an error.
enum class Remedy : uint8_t {
  kNone,
  kAnother,      // another try; a request that is made now may differ from the one that was refused
  kKeysPending,  // the keys were refused, and no fetch of new ones has ended since they were used
  kNewKeys,      // the keys were refused, and new ones are there by now
};

// The protocol of one kind of service. Any thread may call anything.
class Protocol {
 public:
  virtual ~Protocol() = default;
  // A request for the object at `path`, with its URL and what signs it. `query` is percent-encoded,
  // its parameters sorted by name. Errors: kInvalid (the path is malformed), those of fetching
  // credentials.
  virtual Result<Request> request(std::string_view method, const std::string& path,
                                  std::string_view query) const = 0;
  // The host that serves this path, for messages.
  virtual std::string host(const std::string& path) const = 0;
  // How many ranges a request may ask for.
  virtual size_t ranges_max() const = 0;
  // The error text in the body of an answer.
  virtual std::string explain(std::string_view body) const = 0;
  // Whether an answer that begins can be the one that was asked for. Errors: what the user should
  // know about this kind of service, in place of the status alone.
  virtual Status check(const std::string& /*path*/, const Head& /*head*/) const { return {}; }
  // Whether the body of an answer to a POST says that it failed, although its status is a success.
  virtual bool is_error(std::string_view body) const = 0;
  // What may help after this error, beyond what applies to the errors of all services. The protocol
  // learns from the error: the bucket's region, or that it needs new credentials. Several requests
  // that were made at the same time may all bring the same error.
  virtual Remedy remedy_for(const std::string& path, const Basis& basis, const Head& head,
                            std::string_view body) const = 0;
};

// Why a request was sent.
enum class Why : uint8_t { kFirst, kRetry, kHedge };

// A small answer, as a whole.
struct Document {
  Head head;
  std::string body;
};

// A request for something else than ranges of a file. The caller waits for it; it has no deadline
// of its own.
struct Question {
  std::string method = "GET";
  std::string path;
  std::string query = {};
  std::vector<std::string> headers = {};
  std::vector<Bytes> body = {};  // like Request::body
  std::string body_sha256 = {};
  // An answer that announces more bytes than this is not received (kTooBig).
  uint64_t body_bytes = base::kHttpDocumentBytesMax;
};

// Any thread may call anything, also in a forked process, which has connections of its own.
class Service {
 public:
  Service(std::unique_ptr<const Protocol> protocol, const ServiceOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Protocol& protocol() const { return *protocol_; }
  Client& client() const;

  // Sends the question, with retries, and waits for the answer. Errors: kNotFound, kExists (a
  // condition of the request does not hold), kUnavailable, kTimedOut, kCancelled, kTooBig, kIo.
  Result<Document> ask(const Question& question) const;

  // How many ranges a request may ask for: as many as the protocol allows, or one after a server
  // answered only the first of several. There is no limit if the server's last answer was a whole
  // file, because a single request then brings all ranges.
  size_t ranges_max() const;
  void note_one_range() const { one_range_ = true; }
  void note_whole_files(bool sends_them) const { whole_files_ = sends_them; }

  // Changes a verdict about an error by what the protocol knows about this error.
  void apply_remedy(const std::string& path, const Basis& basis, const Head& head,
                    std::string_view body, Tries* tries, Verdict* verdict) const;
  // How long to wait before the next try; nothing to give up. `tries` already counts the try that
  // brought the verdict.
  std::optional<int64_t> wait_ns(Tries* tries, const Verdict& verdict) const;
  // Whether a slow request may be sent a second time. If so, this takes a token of the budget.
  bool may_hedge() const;
  // Notes a successful answer.
  void note_success() const;
  void count(const Outcome& outcome, Why why) const;
  Traffic traffic() const;
  // The status with a message for the user: the path, what happened, the host, and the number of
  // tries.
  Status describe(const Status& status, const std::string& path, const Tries& tries) const;

 private:
  struct Connections;

  Connections& connections() const;
  Result<Request> request(const Question& question, int64_t wait_ns) const;
  Verdict judge_document(const Question& question, const Outcome& outcome,
                         std::string_view body) const;

  const std::unique_ptr<const Protocol> protocol_;
  const ServiceOptions options_;
  mutable PerProcess<Connections> connections_;
  mutable std::atomic<bool> one_range_ = false;
  mutable std::atomic<bool> whole_files_ = false;
  mutable std::atomic<uint64_t> waits_ = 0;
  mutable std::atomic<uint64_t> requests_ = 0;
  mutable std::atomic<uint64_t> retries_ = 0;
  mutable std::atomic<uint64_t> hedges_ = 0;
  mutable std::atomic<uint64_t> bytes_received_ = 0;
  mutable std::atomic<uint64_t> bytes_sent_ = 0;
};

}  // namespace forebay::io::http
