#include "cache/peers.h"

#include <algorithm>
#include <atomic>

#include "base/checksum.h"
#include "io/http/range_answer.h"
#include "io/machine.h"
#include "io/serve/needed_again.h"

namespace forebay::cache {

using base::Code;
using base::MutexLock;

namespace {

constexpr int64_t kMs = 1'000'000;
// Members that are gone are known within a second (membership.h). These limits are for those that
// hang, and must not hit those that are only busy.
constexpr int64_t kConnectNs = 2000 * kMs;
// For a whole answer: this long, and as long as its bytes take on a slow link. The owner may have
// to read it from the origin first.
constexpr int64_t kAnswerNs = 5000 * kMs;
constexpr int64_t kHeldNs = 1000 * kMs;
constexpr int64_t kNsPerByte = 100;  // 10 MB/s
// A member that failed is not asked for so long; twice as long when it fails again.
constexpr int64_t kOutNs = 500 * kMs;
constexpr int64_t kOutMostNs = 30'000 * kMs;
// Connections are expensive to begin, and a member answers with one thread.
constexpr uint32_t kConnections = 16;
constexpr uint32_t kHeldConnections = 2;
constexpr int kNotFound = 404;

constexpr std::string_view kChecksums = "forebay-crc32c";  // io::serve::kChecksumsHeader

// A name of the process that serves the member now.
std::string name_of(const Member& member) { return fmt::format("{} {}", member.id, member.port); }

// Whether the bytes have the checksums that the answer names, where it names any.
bool has_checksums(const std::vector<io::Range>& ranges, const io::http::Head& head) {
  const std::string_view said = head.header(kChecksums);
  if (said.empty()) return true;
  std::string expected;
  for (const io::Range& range : ranges) {
    expected += fmt::format("{}{:08x}", expected.empty() ? "" : ",", base::crc32c(range.out));
  }
  return said == expected;
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
  bool is_doubted = false;            // an earlier answer was damaged
  std::atomic<bool> is_gone = false;  // the member
};

Peers::Peers(std::shared_ptr<const io::serve::JobCertificate> certificate)
    : client_(
          {.connections_to_one_max = kConnections, .connect_ns = kConnectNs, .job = certificate}),
      held_client_({.connections_to_one_max = kHeldConnections,
                    .connect_ns = kConnectNs,
                    .job = std::move(certificate)}) {}
Peers::~Peers() = default;

bool Peers::may_ask(const Member& member) const {
  MutexLock lock(mutex_);
  const auto found = out_.find(name_of(member));
  return found == out_.end() || found->second.until_ns < io::monotonic_ns();
}

void Peers::keep_only(const std::vector<Member>& members) {
  std::set<std::string> names;
  for (const Member& member : members) names.insert(name_of(member));
  {
    MutexLock lock(mutex_);
    for (Flight* const flight : flights_) {
      if (!names.contains(flight->member)) flight->is_gone = true;
    }
    std::erase_if(out_, [&](const auto& one) { return !names.contains(one.first); });
  }
  client_.drop_unwanted();
  held_client_.drop_unwanted();
}

void Peers::read(const Member& member, What what, const std::string& target, uint64_t size,
                 std::vector<io::Range> ranges, const io::ReadOptions& options, Done done) {
  const int64_t deadline_ns = io::monotonic_ns() + (what == What::kHeld ? kHeldNs : kAnswerNs) +
                              static_cast<int64_t>(io::bytes_of(ranges)) * kNsPerByte;
  auto flight = std::make_shared<Flight>();
  flight->member = name_of(member);
  flight->what = what;
  flight->host = member.host;
  flight->port = member.port;
  flight->target = target;
  flight->size = size;
  flight->again = io::serve::again_text(ranges);
  flight->ranges = io::joined(std::move(ranges));
  flight->options = {
      .deadline_ns = std::min(deadline_ns, options.deadline_ns.value_or(deadline_ns)),
      .stop = options.stop};
  flight->done = std::move(done);
  {
    MutexLock lock(mutex_);
    flights_.insert(flight.get());
  }
  start(std::move(flight));
}

void Peers::start(std::shared_ptr<Flight> flight) {
  io::serve::RangeRequest request{
      .host = flight->host, .port = flight->port, .target = flight->target};
  request.headers = {"Range: " + io::http::range_header(flight->ranges)};
  if (flight->what == What::kHeld) {
    request.headers.push_back(fmt::format("{}: 1", io::serve::kHeldHeader));
  }
  if (!flight->again.empty()) {
    request.headers.push_back(fmt::format("{}: {}", io::serve::kAgainHeader, flight->again));
  }
  if (flight->is_doubted) request.headers.push_back(fmt::format("{}: 1", io::serve::kDoubtHeader));
  request.options = flight->options;
  request.wanted = [own = flight.get()] { return !own->is_gone; };
  io::http::Sink& sink = flight->answer.emplace(flight->ranges, io::Identity{.size = flight->size});
  auto& client = flight->what == What::kHeld ? held_client_ : client_;
  client.start(std::move(request), sink,
               [this, flight = std::move(flight)](io::serve::RangeOutcome outcome) {
                 finish(flight, std::move(outcome));
               });
}

void Peers::finish(const std::shared_ptr<Flight>& flight, io::serve::RangeOutcome outcome) {
  std::vector<io::Range> rest = flight->answer->rest();
  Status status = std::move(outcome.status);
  const bool is_good = !rest.empty() || has_checksums(flight->ranges, outcome.head);
  if (!is_good && !flight->is_doubted) {
    {
      MutexLock lock(mutex_);
      ++stats_.damaged;
    }
    flight->is_doubted = true;
    return start(flight);
  }
  if (!is_good) rest = flight->ranges;
  if (status.code() == Code::kCancelled && flight->is_gone) status = {};
  if (status.ok() && !rest.empty()) {
    status = Status(Code::kUnavailable,
                    fmt::format("a member of the cache answered {}", outcome.head.code));
  }
  {
    MutexLock lock(mutex_);
    flights_.erase(flight.get());
    ++stats_.requests;
    stats_.hit_bytes += io::bytes_of(flight->ranges) - io::bytes_of(rest);
    if (status.code() != Code::kCancelled) judge(*flight, rest.empty(), outcome.head.code);
  }
  flight->done(std::move(status), std::move(rest));
}

// Whoever answers that it has no such file, or does not hold it, is there.
void Peers::judge(const Flight& flight, bool is_good, int code) {
  if (is_good || code == kNotFound) {
    out_.erase(flight.member);
    if (!is_good && flight.what == What::kAll) ++stats_.failures;
    return;
  }
  ++stats_.failures;
  if (flight.is_gone) return;
  Out& out = out_[flight.member];
  const int64_t now_ns = io::monotonic_ns();
  if (now_ns < out.until_ns) return;  // it was asked before the others failed
  out.for_ns = std::clamp(2 * out.for_ns, kOutNs, kOutMostNs);
  out.until_ns = now_ns + out.for_ns;
}

PeerStats Peers::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace forebay::cache
