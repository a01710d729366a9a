// A host's requests to its near sides.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "io/secret.h"
#include "io/serve/range_client.h"
#include "prep/batch_bytes.h"
#include "prep/received_memory.h"

namespace forebay::prep {

// Where a near side serves.
struct SidePlace {
  std::string name;  // as the user gave it
  std::string host;  // an IP address
  uint16_t port = 0;
  bool is_tls = false;
};
// Reads "http://HOST:PORT" or "https://HOST:PORT"; a host's name is looked up. Errors: kInvalid for
// other texts, and for http:// to another machine, because only TLS says who answers; kUnavailable
// where the name is not known.
Result<SidePlace> parse_side(const std::string& url);

// Any thread may call anything.
class NearClient {
 public:
  // The secret is for places with TLS. Errors: kInvalid when it is too short.
  static Result<std::unique_ptr<NearClient>> open(const io::Secret& secret);
  // Ends what is under way; each request is done before this returns.
  ~NearClient();

  // Sends a job's text, so that its steps can be fetched. Calls `done` once, in any thread,
  // possibly before this returns. Errors: those that the side tells; kUnavailable.
  void send_job(const SidePlace& place, const std::string& text, std::function<void(Status)> done);

  struct Fetched {
    ReceivedBatch batch;
    uint64_t bytes = 0;
  };
  // Fetches a step's batch; the near side prepares it first. Calls `done` once, as above. The fetch
  // ends with kCancelled when `unwanted` is set and drop_unwanted() was called. Errors: those that
  // the side tells (kNotFound: it does not have the job); kUnavailable; kCorrupt where the bytes
  // are not the expected batch.
  void fetch(const SidePlace& place, const Expected& expected,
             std::shared_ptr<const std::atomic<bool>> unwanted,
             std::function<void(Result<Fetched>)> done);
  void drop_unwanted();

 private:
  NearClient() = default;
  io::serve::RangeClient& client_for(const SidePlace& place) {
    return place.is_tls && tls_ != nullptr ? *tls_ : *plain_;
  }

  const std::shared_ptr<ReceivedMemory> received_ = std::make_shared<ReceivedMemory>();
  std::unique_ptr<io::serve::RangeClient> plain_;
  std::unique_ptr<io::serve::RangeClient> tls_;  // null without a secret
};

}  // namespace forebay::prep
