// Reading from other members of the job. A member that does not answer is left alone for a while.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cache/members.h"
#include "io/http/client.h"

namespace forebay::cache {

using base::Status;

struct PeerStats {
  uint64_t hit_bytes = 0;  // received from other members
  uint64_t requests = 0;
  uint64_t failures = 0;  // requests that brought nothing, or not all
};

// Any thread may call anything.
class Peers {
 public:
  // Members are reached by TLS where there is a certificate, and by plain HTTP where it is null.
  explicit Peers(std::shared_ptr<const io::http::JobCertificate> certificate);
  // Ends the reads that are in flight; each is done before this returns.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Whether the member answered lately, or was not asked.
  bool may_ask(const Member& member) const EXCLUDES(mutex_);
  // Begins to fill the ranges, which ascend and do not overlap, of the file with this target, which
  // has `size` bytes. Calls `done` once, in the client's thread, with the ranges that did not come;
  // `status` says why, and is kCancelled where `stop` ended it.
  using Done = std::function<void(Status status, std::vector<io::Range> rest)>;
  void read(const Member& member, const std::string& target, uint64_t size,
            std::vector<io::Range> ranges, const io::ReadOptions& options, Done done);

  PeerStats stats() const EXCLUDES(mutex_);

 private:
  struct Flight;
  void finish(Flight& flight, io::http::Outcome outcome) EXCLUDES(mutex_);

  const std::string_view scheme_;
  mutable base::Mutex mutex_;
  PeerStats stats_ GUARDED_BY(mutex_);
  std::map<std::string, int64_t> out_until_ns_ GUARDED_BY(mutex_);  // by the members' ids
  io::http::Client client_;  // ends first, because its requests use the others
};

}  // namespace forebay::cache
