#include "feed/batch/stats.h"

#include <fmt/format.h>

namespace forebay::feed {

namespace {

std::string counted(uint64_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace

double cost(const FeedStats& stats, const Price& price) {
  return static_cast<double>(stats.link.requests) / 1e3 * price.per_1000_requests +
         static_cast<double>(stats.link.bytes_received) / 1e9 * price.per_gb;
}

std::string describe_link(const FeedStats& stats) {
  const io::Traffic& link = stats.link;
  if (link.requests == 0) return {};
  std::string out =
      counted(link.requests, "request", "requests") + ", " + base::human_bytes(link.bytes_received);
  if (stats.whole_bytes > 0) {
    const double share =
        static_cast<double>(stats.bytes_read) / static_cast<double>(stats.whole_bytes);
    out += fmt::format(" ({:.0f} % of whole files)", 100 * share);
  }
  out += ", " + counted(link.retries, "retry", "retries");
  out += ", " + counted(link.hedges, "hedge", "hedges");
  if (link.bytes_per_s > 0) out += fmt::format(", {:.1f} MB/s", link.bytes_per_s / 1e6);
  if (link.latency_s > 0) out += fmt::format(", {:.1f} ms", link.latency_s * 1e3);
  return out;
}

}  // namespace forebay::feed
