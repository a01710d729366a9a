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
  // The answer to a range request began this long after the request was sent.
  void add_first_byte(int64_t ns);
  // Bytes of a body have come. `first` says that they are its first ones, after which done()
  // follows once, when nothing more will come.
  void add_bytes(size_t bytes, int64_t now_ns, bool first);
  void done() { --receiving_; }

  // A request whose answer has not begun after this time is slow.
  int64_t slow_ns() const { return slow_ns_; }
  // A body of which fewer bytes than this came in `elapsed_ns` is slow.
  uint64_t bytes_expected(int64_t elapsed_ns) const;

  // Median time from the begin of a request to its first byte, in seconds, over the last range
  // requests; with the time to connect, where one needed a new connection. 0: not known yet.
  double latency_s() const { return latency_s_; }
  // Bytes received per second of all bodies together, while there was any; 0: not known yet.
  double bytes_per_s() const { return bytes_per_s_; }

 private:
  void measure();
  void settle();

  static constexpr size_t kKept = 256;
  static constexpr int64_t kFirstSlowNs = 1'000'000'000;

  std::array<int64_t, kKept> first_bytes_{};  // the last ones, in a ring
  uint64_t answers_ = 0;                      // that began so far
  int64_t slow_ns_ = kFirstSlowNs;
  uint32_t receiving_ = 0;  // bodies that have begun and are not done
  int64_t last_bytes_ns_ = 0;
  int64_t busy_ns_ = 0;  // since the throughput was last computed
  uint64_t bytes_ = 0;   // that came in this time
  std::atomic<double> latency_s_ = 0;
  std::atomic<double> bytes_per_s_ = 0;
};

}  // namespace forebay::io::http
