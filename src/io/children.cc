#include "io/children.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace forebay::io {

namespace {

// One bit for each descriptor, because a forked child must not lock a mutex or allocate memory.
// Descriptors with larger numbers are inherited.
constexpr size_t kDescriptors = 65536;
std::array<std::atomic<uint64_t>, kDescriptors / 64> marked;

void close_marked() {
  for (size_t word = 0; word < marked.size(); ++word) {
    const uint64_t bits = marked[word].exchange(0);
    for (size_t bit = 0; bit < 64; ++bit) {
      if ((bits >> bit & 1) != 0) ::close(static_cast<int>(word * 64 + bit));
    }
  }
}

}  // namespace

void close_in_children(int fd) {
  // For programs that are started without fork(), such as by posix_spawn(): no fork handler runs
  // then.
  if (fd >= 0) static_cast<void>(::fcntl(fd, F_SETFD, FD_CLOEXEC));
  static const int begun = ::pthread_atfork(nullptr, nullptr, &close_marked);
  const auto number = static_cast<size_t>(fd);
  if (begun == 0 && fd >= 0 && number < kDescriptors) {
    marked[number / 64] |= uint64_t{1} << number % 64;
  }
}

void keep_in_children(int fd) {
  const auto number = static_cast<size_t>(fd);
  if (fd >= 0 && number < kDescriptors) marked[number / 64] &= ~(uint64_t{1} << number % 64);
}

}  // namespace forebay::io
