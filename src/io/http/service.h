// A server, or a store of many servers, as a place of objects with paths: how a path becomes a
// request, and everything that its users share.
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
  // What range reads may ask for a second time because it is slow: at most one request in twenty,
  // and a few more at the beginning.
  BudgetOptions hedges = {.most = 8, .per_success = 0.05};
};

// What a request was made from; an answer may say that it is wrong by now.
struct Basis {
  std::string region = {};
  std::shared_ptr<const void> keys = {};  // what Signing::owner is; null where nothing is signed
  uint64_t fetches = 0;                   // Signing::fetches
};
Basis basis_of(const Request& request);

// What may help after an answer with an error.
enum class Remedy : uint8_t {
  kNone,
  kAnother,      // another try; a request that is made now may differ from the one that was refused
  kKeysPending,  // the keys were refused, and fetching others has not ended since they were used
  kNewKeys,      // the keys were refused, and others are there by now
};

// How one kind of service is talked to. Any thread may call anything.
class Protocol {
 public:
  virtual ~Protocol() = default;
  // A request for the object at `path`, with its URL and what signs it. `query` is percent-encoded,
  // its parameters sorted by name. Errors: kInvalid (the path makes no sense), those of fetching
  // credentials.
  virtual Result<Request> request(std::string_view method, const std::string& path,
                                  std::string_view query) const = 0;
  // Who answers for this path, for messages.
  virtual std::string host(const std::string& path) const = 0;
  // How many ranges a request may ask for.
  virtual size_t ranges_max() const = 0;
  // What the body of an answer with an error says, in words.
  virtual std::string explain(std::string_view body) const = 0;
  // Whether the answer to a POST, which began as a success, says in its body that it is none.
  virtual bool is_error(std::string_view body) const = 0;
  // What may help after this error, beyond what every service's errors have in common. The protocol
  // learns from it what it did not know when it made the request: another region, new credentials.
  // Requests that were made at the same time may all bring the same news.
  virtual Remedy remedy_for(const std::string& path, const Basis& basis, const Head& head,
                            std::string_view body) const = 0;
};

// Why a request was sent.
enum class Why : uint8_t { kFirst, kRetry, kHedge };

// A small answer.
struct Document {
  Head head;
  std::string body;
};

// What is asked besides reading ranges. It is waited for without a deadline of its own.
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

// Any thread may call anything, in this process or in one that was forked from it: a forked process
// has connections of its own.
class Service {
 public:
  Service(std::unique_ptr<const Protocol> protocol, const ServiceOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Protocol& protocol() const { return *protocol_; }
  Client& client() const;

  // Asks, as often as it takes, and waits. Errors: kNotFound, kExists (a condition of the request
  // does not hold), kUnavailable, kTimedOut, kCancelled, kTooBig, kIo.
  Result<Document> ask(const Question& question) const;

  // How many ranges a request may ask for: what the protocol allows, until a server was seen to
  // answer only the first. A server whose last answer was a whole file is asked once for all
  // ranges.
  size_t ranges_max() const;
  void note_one_range() const { one_range_ = true; }
  void note_whole_files(bool sends_them) const { whole_files_ = sends_them; }

  // Improves a verdict about an answer with an error by what the protocol knows of it.
  void apply_remedy(const std::string& path, const Basis& basis, const Head& head,
                    std::string_view body, Tries* tries, Verdict* verdict) const;
  // How long to wait before something is asked for again; nothing where it should be given up.
  // `tries` counts the try that brought the verdict already.
  std::optional<int64_t> wait_ns(Tries* tries, const Verdict& verdict) const;
  // Whether a slow request may be sent a second time, which is then counted.
  bool may_hedge() const;
  // An answer brought what was asked for.
  void note_success() const;
  void count(const Outcome& outcome, Why why) const;
  Traffic traffic() const;
  // A message for whoever waits: where it was, what happened, how often it was tried.
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
