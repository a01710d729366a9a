// Reads from other members of the job. A member that does not answer is not asked for a while.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cache/members/members.h"
#include "cache/peers/standings.h"
#include "io/serve/own_user.h"
#include "io/serve/prefetch.h"
#include "io/serve/range_client.h"

namespace forebay::cache {

using base::Status;
using io::serve::WantedRange;

struct PeerStats {
  uint64_t hit_bytes = 0;  // received from other members
  uint64_t requests = 0;
  uint64_t failures = 0;  // requests that brought none or only some of the bytes
  uint64_t damaged = 0;   // answers whose bytes did not match their checksums
};

// Any thread may call anything.
class Peers {
 public:
  // Members are reached by TLS with the certificate, or by plain HTTP if it is null.
  explicit Peers(std::shared_ptr<const io::serve::JobCertificate> certificate);
  // Ends the reads in flight; each has called `done` before this returns.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Whether the member is worth asking (standings.h).
  bool may_ask(const Member& member) const EXCLUDES(mutex_);
  // Ends the reads from all other members, because these do not answer any more. `local`: members
  // are asked without TLS from now on. `local_secret`: what this process and the one that it asks
  // without TLS prove to each other that they have.
  void keep_only(const std::vector<Member>& members, bool local, const io::Secret& local_secret)
      EXCLUDES(mutex_);
  // Begins to fill the ranges, which ascend and do not overlap, of the file with this target, which
  // has `size` bytes. Calls `done` once, in the client's thread, with the ranges that did not come;
  // `status` says why, and is kCancelled if `stop` ended the read. `what` the member shall send:
  // all bytes, even if it must ask the origin (kAll); only bytes that it holds (kHeld); bytes that
  // it shall hold from now on for this machine, which has no room (kHold); or nothing, because its
  // bytes are wrong and it shall forget them (kWrong). kNotFound: the member does not hold the
  // bytes, or has no room either.
  enum class What : uint8_t { kAll, kHeld, kHold, kWrong };
  using Done = std::function<void(Status status, std::vector<io::Range> rest)>;
  void read(const Member& member, What what, const std::string& target, uint64_t size,
            std::vector<io::Range> ranges, const io::ReadOptions& options, Done done)
      EXCLUDES(mutex_);

  // Tells a member that its bytes of these ranges turned out to be wrong although they matched
  // their checksums, and does not ask it for a while.
  void report_wrong(const Member& member, const std::string& target, uint64_t size,
                    const std::vector<WantedRange>& ranges) EXCLUDES(mutex_);
  // Notes that this process has read `bytes` bytes from the origin itself.
  void note_origin(uint64_t bytes, int64_t begin_ns) EXCLUDES(mutex_);
  // Asks the member to fetch these ranges of the file before somebody reads them. Calls `done`
  // once, in the client's thread.
  void prefetch(const Member& member, const std::string& target,
                const std::vector<WantedRange>& ranges, const io::ReadOptions& options,
                std::function<void(io::PrefetchOutcome)> done) EXCLUDES(mutex_);

  PeerStats stats() const EXCLUDES(mutex_);

 private:
  struct Flight;
  // Sends one request; a read() may need several.
  void ask(const Member& member, What what, const std::string& target, uint64_t size,
           std::vector<io::Range> ranges, const io::ReadOptions& options, Done done)
      EXCLUDES(mutex_);
  void start(std::shared_ptr<Flight> flight) EXCLUDES(mutex_);
  void finish(const std::shared_ptr<Flight>& flight, io::serve::RangeOutcome outcome)
      EXCLUDES(mutex_);
  void judge(const Flight& flight, bool is_good, base::Code why,
             const io::serve::RangeOutcome& outcome) REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  PeerStats stats_ GUARDED_BY(mutex_);
  bool is_local_ GUARDED_BY(mutex_) = false;
  io::serve::Proofs proofs_ GUARDED_BY(mutex_);
  Standings standings_ GUARDED_BY(mutex_);  // of members' processes
  std::set<Flight*> flights_ GUARDED_BY(mutex_);
  io::serve::RangeClient& client_for(What what);
  // The clients end first, because their requests use the other fields of this class. Requests for
  // held bytes have connections of their own, on which no answer waits for an origin, and requests
  // to hold bytes have others, on which no answer waits for a member. Otherwise members could wait
  // for each other.
  io::serve::RangeClient client_;
  io::serve::RangeClient held_client_;
  io::serve::RangeClient hold_client_;
  io::serve::RangeClient local_client_;
};

}  // namespace forebay::cache
