// A file descriptor of the system with one owner. Only the sources of io/ include this.
#pragma once

#include <unistd.h>

#include <utility>

namespace forebay::io {

// Closes it at the end of its life.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // Gives it up without closing it.
  int release() { return std::exchange(fd_, -1); }
  // Closes it now; false where the system reports an error, such as a write that failed.
  bool close() { return ::close(release()) == 0; }

 private:
  int fd_;
};

}  // namespace forebay::io
