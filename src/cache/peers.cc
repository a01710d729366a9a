#include "cache/peers.h"

#include <algorithm>

#include "io/http/range_answer.h"
#include "io/machine.h"

namespace forebay::cache {

using base::Code;
using base::MutexLock;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kConnectNs = 250 * kMs;
// For a whole answer: this long, and as long as its bytes take on a slow link. The owner may have
// to read it from the origin first.
constexpr int64_t kAnswerNs = 2000 * kMs;
constexpr int64_t kNsPerByte = 100;  // 10 MB/s
// A member that failed is not asked for so long.
constexpr int64_t kOutNs = 1000 * kMs;

}  // namespace

struct Peers::Flight {
  Flight(std::vector<io::Range> ranges, uint64_t size)
      : answer(std::move(ranges), io::Identity{.size = size}) {}
  io::http::RangeAnswer answer;
  std::string member;
  uint64_t bytes = 0;
  Done done;
};

Peers::Peers(std::shared_ptr<const io::http::JobCertificate> certificate)
    : scheme_(certificate == nullptr ? "http" : "https"),
      client_({.connect_ns = kConnectNs, .job = std::move(certificate)}) {}
Peers::~Peers() = default;

bool Peers::may_ask(const Member& member) const {
  MutexLock lock(mutex_);
  const auto found = out_until_ns_.find(member.id);
  return found == out_until_ns_.end() || found->second < io::monotonic_ns();
}

void Peers::read(const Member& member, const std::string& target, uint64_t size,
                 std::vector<io::Range> ranges, const io::ReadOptions& options, Done done) {
  io::http::Request request;
  request.url = fmt::format("{}://{}:{}{}", scheme_, member.host, member.port, target);
  request.headers = {"Range: " + io::http::range_header(ranges)};
  uint64_t bytes = 0;
  for (const io::Range& range : ranges) bytes += range.out.size();
  const int64_t deadline_ns =
      io::monotonic_ns() + kAnswerNs + static_cast<int64_t>(bytes) * kNsPerByte;
  request.options = {
      .deadline_ns = std::min(deadline_ns, options.deadline_ns.value_or(deadline_ns)),
      .stop = options.stop};
  request.redirects = false;
  request.through_proxy = false;
  auto flight = std::make_shared<Flight>(ranges, size);
  flight->member = member.id;
  flight->bytes = bytes;
  flight->done = std::move(done);
  io::http::Sink& sink = flight->answer;
  client_.start(std::move(request), sink,
                [this, flight = std::move(flight)](io::http::Outcome outcome) {
                  finish(*flight, std::move(outcome));
                });
}

void Peers::finish(Flight& flight, io::http::Outcome outcome) {
  std::vector<io::Range> rest = flight.answer.rest();
  Status status = std::move(outcome.status);
  if (status.ok() && !rest.empty()) {
    status = Status(Code::kUnavailable,
                    fmt::format("a member of the cache answered {}", outcome.head.code));
  }
  {
    MutexLock lock(mutex_);
    ++stats_.requests;
    stats_.hit_bytes += flight.bytes;
    for (const io::Range& range : rest) stats_.hit_bytes -= range.out.size();
    // Whoever answers that it has no such file is there.
    const bool is_out = !rest.empty() && status.code() != Code::kCancelled;
    if (is_out) {
      ++stats_.failures;
      if (outcome.head.code != 404) out_until_ns_[flight.member] = io::monotonic_ns() + kOutNs;
    }
  }
  flight.done(std::move(status), std::move(rest));
}

PeerStats Peers::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace forebay::cache
