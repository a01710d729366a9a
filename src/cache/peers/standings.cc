#include "cache/peers/standings.h"

#include <algorithm>

namespace forebay::cache {

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kOutNs = 500 * kMs;
constexpr int64_t kOutMostNs = 30'000 * kMs;
constexpr int64_t kOutTimes = 10;  // times the wait in vain
constexpr int64_t kDistrustTimes = 4;
// Waits in vain may take one part in so many of the time.
constexpr int64_t kSpareShare = 10;
constexpr int64_t kOverdrawnNs = 10'000 * kMs;
// An answer that takes longer is compared with the origin.
constexpr int64_t kLateNs = 2000 * kMs;
constexpr int64_t kLateNsPerByte = 100;  // 10 MB/s
constexpr int64_t kLateTimes = 2;
// How long a measurement of the origin counts; and a new measurement counts for one part in so
// many.
constexpr int64_t kOriginCountsNs = 60'000 * kMs;
constexpr int64_t kOriginShare = 4;
constexpr uint64_t kMebibyte = 1u << 20;

// A short read takes about as long as one of a mebibyte.
int64_t mebibytes(uint64_t bytes) {
  return static_cast<int64_t>(std::max<uint64_t>(1, bytes / kMebibyte));
}

}  // namespace

bool Standings::may_ask(const std::string& member, int64_t now_ns) const {
  const auto out = out_.find(member);
  if (out != out_.end() && now_ns < out->second.until_ns) return false;
  const int64_t spare_ns = this->spare_ns(now_ns);
  return spare_ns > 0 || (spare_ns > -kOverdrawnNs && good_.contains(member));
}

void Standings::keep_only(const std::set<std::string>& members) {
  std::erase_if(out_, [&](const auto& one) { return !members.contains(one.first); });
  std::erase_if(distrusted_, [&](const auto& one) { return !members.contains(one.first); });
  std::erase_if(good_, [&](const auto& one) { return !members.contains(one); });
}

void Standings::succeed(const Request& request) {
  // The request was sent before other requests to the member failed.
  const auto out = out_.find(request.member);
  if (out != out_.end() && request.begin_ns < out->second.until_ns) return;
  const int64_t took_ns = request.end_ns - request.begin_ns;
  const int64_t late_ns = kLateNs + static_cast<int64_t>(request.bytes) * kLateNsPerByte;
  if (took_ns > late_ns) {
    const auto origin_ns = this->origin_ns(request.bytes, request.end_ns);
    // The origin was not measured; the next reads go there and measure it.
    if (!origin_ns) return leave_alone(request.member, 0, request.end_ns);
    if (took_ns > kLateTimes * *origin_ns) {
      spend(request.begin_ns + *origin_ns, request.end_ns);
      good_.erase(request.member);
      return leave_alone(request.member, 0, request.end_ns);
    }
  }
  out_.erase(request.member);
  good_.insert(request.member);
}

void Standings::fail(const Request& request) {
  spend(request);
  good_.erase(request.member);
  leave_alone(request.member, request.end_ns - request.begin_ns, request.end_ns);
}

void Standings::distrust(const std::string& member, int64_t now_ns) {
  Out& out = out_[member];
  if (now_ns < out.until_ns) return;
  int64_t& for_ns = distrusted_[member];
  for_ns = std::clamp(kDistrustTimes * for_ns, kOutNs, kOutMostNs);
  good_.erase(member);
  out.until_ns = now_ns + for_ns;
}

void Standings::leave_alone(const std::string& member, int64_t in_vain_ns, int64_t now_ns) {
  Out& out = out_[member];
  const int64_t at_least_ns = now_ns + kOutTimes * in_vain_ns;
  if (now_ns >= out.until_ns) {  // else the request was sent before others failed
    out.for_ns = std::clamp(2 * out.for_ns, kOutNs, kOutMostNs);
    out.until_ns = now_ns + out.for_ns;
  }
  out.until_ns = std::max(out.until_ns, at_least_ns);
}

int64_t Standings::spare_ns(int64_t now_ns) const {
  return std::min(kSpareNs, spare_ns_ + (now_ns - spare_at_ns_) / kSpareShare);
}

// Waits at the same time count once.
void Standings::spend(int64_t begin_ns, int64_t end_ns) {
  const int64_t spent_ns = end_ns - std::max(begin_ns, spent_until_ns_);
  spent_until_ns_ = std::max(spent_until_ns_, end_ns);
  const int64_t before_ns = spare_ns(end_ns);
  spare_at_ns_ = end_ns;
  spare_ns_ = before_ns - std::max<int64_t>(0, spent_ns);
}

void Standings::note_origin(uint64_t bytes, int64_t begin_ns, int64_t end_ns) {
  const int64_t ns = (end_ns - begin_ns) / mebibytes(bytes);
  const bool is_old = origin_ns_ == 0 || end_ns - origin_at_ns_ > kOriginCountsNs;
  origin_ns_ = is_old ? ns : origin_ns_ + (ns - origin_ns_) / kOriginShare;
  origin_at_ns_ = end_ns;
}

std::optional<int64_t> Standings::origin_ns(uint64_t bytes, int64_t now_ns) const {
  if (origin_ns_ == 0 || now_ns - origin_at_ns_ > kOriginCountsNs) return std::nullopt;
  return origin_ns_ * mebibytes(bytes);
}

}  // namespace forebay::cache
