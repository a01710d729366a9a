// What benchmarks of computation measure with: the CPU time of a thread, wall time, clock cycles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace forebay::bench {

inline double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
inline double thread_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }
inline double wall_seconds() { return seconds_of(CLOCK_MONOTONIC); }

// Returns the clock rate, measured by additions that wait for each other, one in a cycle; the best
// of ten tries.
inline double cycles_per_second() {
  constexpr uint64_t kAdditions = 4'000'000;
  double best = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    uint64_t sum = 0;
    uint64_t step = 1;
    const double start = thread_seconds();
    for (uint64_t i = 0; i < kAdditions; i += 4) {
      // The compiler must not see what is added.
      for (int k = 0; k < 4; ++k) {
        asm volatile("" : "+r"(sum), "+r"(step));
        sum += step;
      }
    }
    asm volatile("" : "+r"(sum));
    best = std::max(best, static_cast<double>(kAdditions) / (thread_seconds() - start));
  }
  return best;
}

// Returns how many independent additions run in a second, measured over about a microsecond.
inline double additions_per_second() {
  constexpr int kRounds = 1000;
  constexpr int kAdditions = 10;  // in a round
  uint64_t a = 0, b = 0, c = 0, d = 0, e = 0;
  const double start = wall_seconds();
  for (int i = 0; i < kRounds; ++i) {
    // The compiler must not see what is added.
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
    ++a, ++b, ++c, ++d, ++e;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
    ++a, ++b, ++c, ++d, ++e;
  }
  asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
  return kRounds * kAdditions / (wall_seconds() - start);
}

// Detects whether a neighbour uses the core. When the core shares its units with another hardware
// thread that a neighbour keeps busy, independent additions take up to twice as long, and so does
// dense code like ours, while code that waits for its own results hardly slows down.
class Neighbour {
 public:
  Neighbour() {
    const double end = wall_seconds() + 1;
    while (wall_seconds() < end) {
      // Uses the least of three, because a single one may be an error of the clock.
      double least = additions_per_second();
      for (int i = 0; i < 2; ++i) least = std::min(least, additions_per_second());
      alone_ = std::max(alone_, least);
    }
  }
  bool is_quiet() const { return additions_per_second() > 0.93 * alone_; }

 private:
  double alone_ = 0;
};

// The shortest of several times.
class Shortest {
 public:
  void add(double seconds) { best_ = std::min(best_, seconds); }
  double seconds() const { return best_; }

 private:
  double best_ = 1e9;
};

}  // namespace forebay::bench
