// How fast a service and the network to it are, as seen by one client. Plain logic without sockets
// and clocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace forebay::io::http {

// The client's thread writes; any thread may read latency_s() and bytes_per_s().
class Link {
 public:
  // Records that the answer to a range request began this long after the request was sent.
  void add_first_byte(int64_t ns);
  // Records received bytes of a body. `first` says that they are the body's first ones; done() must
  // then follow once, when no more will come.
  void add_bytes(size_t bytes, int64_t now_ns, bool first);
  void done() { --receiving_; }

  // A request whose answer has not begun after this time is slow.
  int64_t slow_ns() const { return slow_ns_; }
  // A body is slow if fewer bytes of it than this came in `elapsed_ns`.
  uint64_t bytes_expected(int64_t elapsed_ns) const;

  // The median time from sending a range request to its first byte, over the latest requests, in
  // seconds. It includes the time to connect if a new connection was needed. 0: not known yet.
  double latency_s() const { return latency_s_; }
  // Bytes per second of all bodies together, while any body was received; 0: not known yet.
  double bytes_per_s() const { return bytes_per_s_; }

 private:
  void measure();
  void settle();

  static constexpr size_t kKept = 256;
  static constexpr int64_t kFirstSlowNs = 1'000'000'000;

  std::array<int64_t, kKept> first_bytes_{};  // the latest ones, in a ring buffer
  uint64_t answers_ = 0;                      // answers that have begun so far
  int64_t slow_ns_ = kFirstSlowNs;
  uint32_t receiving_ = 0;  // bodies that have begun and not ended
  int64_t last_bytes_ns_ = 0;
  int64_t busy_ns_ = 0;  // since the throughput was last computed
  uint64_t bytes_ = 0;   // received in this time
  std::atomic<double> latency_s_ = 0;
  std::atomic<double> bytes_per_s_ = 0;
};

}  // namespace forebay::io::http
