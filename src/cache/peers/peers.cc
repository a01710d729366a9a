#include "cache/peers/peers.h"

#include <algorithm>
#include <atomic>

#include "base/checksum.h"
#include "base/limits.h"
#include "cache/peers/gather.h"
#include "io/http/range_answer.h"
#include "io/machine.h"
#include "io/serve/needed_again.h"
#include "io/serve/prefetch_answer.h"

namespace forebay::cache {

using base::Code;
using base::MutexLock;

namespace {

constexpr int64_t kMs = 1'000'000;
// The membership notices members that are gone within a second (membership.h). These limits are for
// members that hang, and must not hit members that are only busy.
constexpr int64_t kConnectNs = 2000 * kMs;
// Time for a whole answer, in addition to what its bytes take on a slow link. The owner may have to
// read them from the origin first.
constexpr int64_t kAnswerNs = 5000 * kMs;
constexpr int64_t kHeldNs = 1000 * kMs;
constexpr int64_t kHoldNs = 3000 * kMs;  // less than kAnswerNs, for which the reader waits
constexpr int64_t kNsPerByte = 100;      // 10 MB/s
// Connections are expensive to begin, and a member answers with one thread.
constexpr uint32_t kConnections = 16;
constexpr uint32_t kHeldConnections = 2;
constexpr uint32_t kHoldConnections = 4;
constexpr uint64_t kConnectionsMost = 256;  // to all members
constexpr uint64_t kFilesShare = 16;  // a client may use one in so many of the process's files
constexpr int kPartialContent = 206;
constexpr int kNotFound = 404;

// io::serve::kChecksumsHeader and kServerProofHeader, as a client finds them.
constexpr std::string_view kChecksums = "forebay-crc32c";
constexpr std::string_view kProof = "forebay-proof";

io::serve::RangeClientOptions options_for(
    uint32_t connections, const std::shared_ptr<const io::serve::JobCertificate>& certificate) {
  // Connections to the origin and open files need descriptors too.
  const uint64_t share = std::max<uint64_t>(1, io::open_files_max() / kFilesShare);
  return {.connections_max = static_cast<uint32_t>(std::min(kConnectionsMost, share)),
          .connections_to_one_max = connections,
          .connect_ns = kConnectNs,
          .job = certificate};
}

// Names the process that serves the member now.
std::string name_of(const Member& member) { return fmt::format("{} {}", member.id, member.port); }

// Whether the bytes match the checksums that the answer names; true if it names none.
bool has_checksums(const std::vector<io::Range>& ranges, const io::http::Head& head) {
  const std::string_view said = head.header(kChecksums);
  if (said.empty()) return true;
  std::string expected;
  for (const io::Range& range : ranges) {
    expected += fmt::format("{}{:08x}", expected.empty() ? "" : ",", base::crc32c(range.out));
  }
  return said == expected;
}

void prove(const io::serve::Proofs& own, io::serve::RangeRequest* request) {
  if (own.empty()) return;
  request->headers.push_back("Authorization: Bearer " + own.of_client);
}

// Whether the answer comes from a process of this user. If the one that was asked has died, another
// user's process may have got its port.
bool is_from(const io::serve::Proofs& own, const io::http::Head& head) {
  return own.empty() || io::serve::is_proof(head.header(kProof), own.of_server);
}

}  // namespace

struct Peers::Flight {
  std::string member;
  std::string host;
  uint16_t port = 0;
  What what = What::kAll;
  std::string target;
  uint64_t size = 0;  // of the file
  std::vector<io::Range> ranges;
  std::string again;  // io::serve::kAgainHeader
  io::ReadOptions options;
  Done done;
  std::optional<io::http::RangeAnswer> answer = {};
  bool is_local = false;              // the member is on this machine, and is asked without TLS
  io::serve::Proofs proofs = {};      // empty if the member is asked with TLS
  bool is_doubted = false;            // an earlier answer was damaged
  std::atomic<bool> is_gone = false;  // the member is gone
};

Peers::Peers(std::shared_ptr<const io::serve::JobCertificate> certificate)
    : client_(options_for(kConnections, certificate)),
      held_client_(options_for(kHeldConnections, certificate)),
      hold_client_(options_for(kHoldConnections, certificate)),
      local_client_(options_for(kConnections, nullptr)) {}
Peers::~Peers() = default;

io::serve::RangeClient& Peers::client_for(What what) {
  return what == What::kAll ? client_ : what == What::kHold ? hold_client_ : held_client_;
}

bool Peers::may_ask(const Member& member) const {
  MutexLock lock(mutex_);
  return standings_.may_ask(name_of(member), io::monotonic_ns());
}

void Peers::keep_only(const std::vector<Member>& members, bool local,
                      const io::Secret& local_secret) {
  std::set<std::string> names;
  for (const Member& member : members) names.insert(name_of(member));
  {
    MutexLock lock(mutex_);
    is_local_ = local;
    proofs_ = io::serve::proofs_from(local_secret);
    for (Flight* const flight : flights_) {
      if (!names.contains(flight->member)) flight->is_gone = true;
    }
    standings_.keep_only(names);
  }
  client_.drop_unwanted();
  held_client_.drop_unwanted();
  local_client_.drop_unwanted();
  hold_client_.drop_unwanted();
}

// Sends several requests if there are more ranges than servers take in one.
void Peers::read(const Member& member, What what, const std::string& target, uint64_t size,
                 std::vector<io::Range> ranges, const io::ReadOptions& options, Done done) {
  constexpr size_t kMost = base::kHttpRangesMax;
  const size_t count = (ranges.size() + kMost - 1) / kMost;
  if (count <= 1) return ask(member, what, target, size, std::move(ranges), options, done);
  const auto gather = std::make_shared<ReadGather>(count, std::move(done));
  for (size_t at = 0; at < ranges.size(); at += kMost) {
    const auto begin = ranges.begin() + static_cast<int64_t>(at);
    ask(member, what, target, size,
        {begin, begin + static_cast<int64_t>(std::min(kMost, ranges.size() - at))}, options,
        [gather](const Status& status, const std::vector<io::Range>& rest) {
          gather->finish(status, rest);
        });
  }
}

void Peers::ask(const Member& member, What what, const std::string& target, uint64_t size,
                std::vector<io::Range> ranges, const io::ReadOptions& options, Done done) {
  auto flight = std::make_shared<Flight>();
  flight->member = name_of(member);
  flight->what = what;
  flight->host = member.host;
  flight->port = member.port;
  flight->target = target;
  flight->size = size;
  flight->again = io::serve::again_text(ranges);
  flight->ranges = io::joined(std::move(ranges));
  flight->options = options;
  flight->done = std::move(done);
  {
    MutexLock lock(mutex_);
    flight->is_local = is_local_;
    flight->proofs = proofs_;
    flights_.insert(flight.get());
  }
  start(std::move(flight));
}

void Peers::start(std::shared_ptr<Flight> flight) {
  io::serve::RangeRequest request{
      .host = flight->host, .port = flight->port, .target = flight->target};
  request.headers = {"Range: " + io::http::range_header(flight->ranges)};
  prove(flight->proofs, &request);
  if (flight->what == What::kHeld) {
    request.headers.push_back(fmt::format("{}: 1", io::serve::kHeldHeader));
  }
  if (flight->what == What::kHold) {
    request.headers.push_back(fmt::format("{}: 1", io::serve::kHoldHeader));
  }
  if (flight->what == What::kWrong) {
    request.headers.push_back(fmt::format("{}: 1", io::serve::kWrongHeader));
  }
  if (!flight->again.empty()) {
    request.headers.push_back(fmt::format("{}: {}", io::serve::kAgainHeader, flight->again));
  }
  if (flight->is_doubted) request.headers.push_back(fmt::format("{}: 1", io::serve::kDoubtHeader));
  request.options = flight->options;
  const int64_t least_ns = flight->what == What::kAll    ? kAnswerNs
                           : flight->what == What::kHold ? kHoldNs
                                                         : kHeldNs;
  request.answer_ns = least_ns + static_cast<int64_t>(io::bytes_of(flight->ranges)) * kNsPerByte;
  // Requests that waited for others, which failed, are not sent any more.
  request.may_send = [this, own = flight.get()] {
    MutexLock lock(mutex_);
    if (own->what != What::kWrong && !standings_.may_ask(own->member, io::monotonic_ns()))
      own->is_gone = true;
    return !own->is_gone;
  };
  request.wanted = [own = flight.get()] { return !own->is_gone; };
  io::http::Sink& sink = flight->answer.emplace(flight->ranges, io::Identity{.size = flight->size});
  auto& client = flight->is_local ? local_client_ : client_for(flight->what);
  client.start(std::move(request), sink,
               [this, flight = std::move(flight)](io::serve::RangeOutcome outcome) {
                 finish(flight, std::move(outcome));
               });
}

void Peers::finish(const std::shared_ptr<Flight>& flight, io::serve::RangeOutcome outcome) {
  std::vector<io::Range> rest = flight->answer->rest();
  Status status = std::move(outcome.status);
  const bool is_own = is_from(flight->proofs, outcome.head);
  if (!is_own) rest = flight->ranges;
  const bool is_good = !rest.empty() || has_checksums(flight->ranges, outcome.head);
  // A member that sends held bytes without reading them first can only hang up if it cannot read
  // them.
  const bool is_cut = status.code() == Code::kTruncated && outcome.head.code == kPartialContent &&
                      !outcome.head.header(kChecksums).empty();
  if ((!is_good || is_cut) && !flight->is_doubted) {
    {
      MutexLock lock(mutex_);
      if (!is_good) ++stats_.damaged;
    }
    flight->is_doubted = true;
    return start(flight);
  }
  if (!is_good) rest = flight->ranges;
  if (status.code() == Code::kCancelled && flight->is_gone) status = {};
  const bool is_not_there = !rest.empty() && outcome.head.code == kNotFound;
  if (is_not_there || (status.ok() && !rest.empty())) {
    status = Status(is_not_there ? Code::kNotFound : Code::kUnavailable,
                    fmt::format("a member of the cache answered {}", outcome.head.code));
  }
  {
    MutexLock lock(mutex_);
    flights_.erase(flight.get());
    ++stats_.requests;
    stats_.hit_bytes += io::bytes_of(flight->ranges) - io::bytes_of(rest);
    if (status.code() != Code::kCancelled) judge(*flight, rest.empty(), status.code(), outcome);
  }
  flight->done(std::move(status), std::move(rest));
}

// A member that answers that it has no such file, or does not hold it, is alive.
void Peers::judge(const Flight& flight, bool is_good, Code why,
                  const io::serve::RangeOutcome& outcome) {
  const int code = outcome.head.code;
  if (outcome.sent_ns == 0) return;  // never sent, so it says nothing about the member
  const Standings::Request request{.member = flight.member,
                                   .begin_ns = outcome.sent_ns,
                                   .end_ns = io::monotonic_ns(),
                                   .bytes = io::bytes_of(flight.ranges)};
  const bool is_there = is_good || code == kNotFound;
  if (!is_good && (!is_there || flight.what == What::kAll)) ++stats_.failures;
  if (is_there) return standings_.succeed(request);
  // If the member must read the bytes from the origin first, the answer's head comes at once,
  // without checksums: the member is alive, and the origin is slow.
  const bool waits_for_origin =
      why == Code::kTimedOut && code == kPartialContent && outcome.head.header(kChecksums).empty();
  if (flight.is_gone || waits_for_origin) return standings_.spend(request);
  standings_.fail(request);
}

void Peers::report_wrong(const Member& member, const std::string& target, uint64_t size,
                         const std::vector<WantedRange>& ranges) {
  {
    MutexLock lock(mutex_);
    standings_.distrust(name_of(member), io::monotonic_ns());
  }
  // The bytes of the answer go into memory that nobody uses.
  const auto memory = std::make_shared<base::ByteVector>(io::serve::bytes_of(ranges));
  std::vector<io::Range> told;
  size_t at = 0;
  for (const WantedRange& range : ranges) {
    told.push_back({range.offset, base::MutableBytes(*memory).subspan(at, range.length)});
    at += range.length;
  }
  read(member, What::kWrong, target, size, std::move(told), {},
       [memory](const Status&, const std::vector<io::Range>&) {});
}

void Peers::note_origin(uint64_t bytes, int64_t begin_ns) {
  MutexLock lock(mutex_);
  standings_.note_origin(bytes, begin_ns, io::monotonic_ns());
}

void Peers::prefetch(const Member& member, const std::string& target,
                     const std::vector<WantedRange>& ranges, const io::ReadOptions& options,
                     std::function<void(io::PrefetchOutcome)> done) {
  struct NoBody final : io::http::Sink {
    Status begin(const io::http::Head&) override { return {}; }
    Status append(base::Bytes) override { return {}; }
    Status end() override { return {}; }
  };
  io::serve::RangeRequest request{.host = member.host, .port = member.port, .target = target};
  request.headers = {"Range: bytes=", fmt::format("{}: 1", io::serve::kPrefetchHeader)};
  std::string& text = request.headers.front();
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto& [offset, length, again] = ranges[i];
    text += fmt::format("{}{}-{}", i == 0 ? "" : ",", offset, offset + length - 1);
  }
  request.options = options;
  request.answer_ns = kHeldNs;
  bool is_local = false;
  {
    MutexLock lock(mutex_);
    is_local = is_local_;
    prove(proofs_, &request);
  }
  const auto sink = std::make_shared<NoBody>();
  (is_local ? local_client_ : held_client_)
      .start(std::move(request), *sink,
             [this, sink, done = std::move(done)](const io::serve::RangeOutcome& outcome) {
               {
                 MutexLock lock(mutex_);
                 ++stats_.requests;
               }
               done(outcome.status.ok() ? io::serve::outcome_of(outcome.head.code)
                                        : io::PrefetchOutcome::kFull);
             });
}

PeerStats Peers::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace forebay::cache
