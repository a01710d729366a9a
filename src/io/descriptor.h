// A file descriptor of the system with one owner. Only the sources of io/ include this.
#pragma once

#include <unistd.h>

#include <utility>

namespace forebay::io {

// Its destructor closes the descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  // Gives up the descriptor without closing it.
  int release() { return std::exchange(fd_, -1); }
  // Closes the descriptor now; false if the system reports an error, such as a failed write.
  bool close() { return ::close(release()) == 0; }

 private:
  int fd_;
};

}  // namespace forebay::io
