// Reading from other members of the job. A member that does not answer is left alone for a while.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cache/members/members.h"
#include "cache/peers/standings.h"
#include "io/serve/prefetch.h"
#include "io/serve/range_client.h"

namespace forebay::cache {

using base::Status;
using io::serve::WantedRange;

struct PeerStats {
  uint64_t hit_bytes = 0;  // received from other members
  uint64_t requests = 0;
  uint64_t failures = 0;  // requests that brought nothing, or not all
  uint64_t damaged = 0;   // answers whose bytes had other checksums than they said
};

// Any thread may call anything.
class Peers {
 public:
  // Members are reached by TLS where there is a certificate, and by plain HTTP where it is null.
  explicit Peers(std::shared_ptr<const io::serve::JobCertificate> certificate);
  // Ends the reads that are in flight; each is done before this returns.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Whether the member is worth asking (standings.h).
  bool may_ask(const Member& member) const EXCLUDES(mutex_);
  // Members that are not among these do not answer any more: what they were asked for ends.
  // `local`: they are asked without TLS from now on.
  void keep_only(const std::vector<Member>& members, bool local = false) EXCLUDES(mutex_);
  // Begins to fill the ranges, which ascend and do not overlap, of the file with this target, which
  // has `size` bytes. Calls `done` once, in the client's thread, with the ranges that did not come;
  // `status` says why, and is kCancelled where `stop` ended it.
  // `what`: everything, for which the member may have to ask the origin; only what it holds; or
  // what it shall hold from now on for this machine, which has no room; or nothing, because it
  // holds wrong bytes of them and shall forget them. kNotFound where the member holds none of it,
  // or has no room either.
  enum class What : uint8_t { kAll, kHeld, kHold, kWrong };
  using Done = std::function<void(Status status, std::vector<io::Range> rest)>;
  void read(const Member& member, What what, const std::string& target, uint64_t size,
            std::vector<io::Range> ranges, const io::ReadOptions& options, Done done)
      EXCLUDES(mutex_);

  // Tells a member that what it gave of these ranges turned out to be wrong, although it had the
  // right checksums, and leaves it alone for a while.
  void report_wrong(const Member& member, const std::string& target, uint64_t size,
                    const std::vector<WantedRange>& ranges) EXCLUDES(mutex_);
  // This process has read so many bytes from the origin itself.
  void note_origin(uint64_t bytes, int64_t begin_ns) EXCLUDES(mutex_);
  // Asks the member to fetch these ranges of the file before somebody reads them. Calls `done`
  // once, in the client's thread.
  void prefetch(const Member& member, const std::string& target,
                const std::vector<WantedRange>& ranges, const io::ReadOptions& options,
                std::function<void(io::PrefetchOutcome)> done) EXCLUDES(mutex_);

  PeerStats stats() const EXCLUDES(mutex_);

 private:
  struct Flight;
  // Reads that are parts of one.
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
  Standings standings_ GUARDED_BY(mutex_);  // of members' processes
  std::set<Flight*> flights_ GUARDED_BY(mutex_);
  io::serve::RangeClient& client_for(What what);
  // The clients end first, because their requests use the other members of this class. What members
  // hold is asked for with connections of its own, on which no answer waits for an origin, and what
  // they shall hold with others, on which none waits for a member: otherwise members could wait for
  // each other's.
  io::serve::RangeClient client_;
  io::serve::RangeClient held_client_;
  io::serve::RangeClient hold_client_;
  io::serve::RangeClient local_client_;
};

}  // namespace forebay::cache
