// Opens the folder in which a file is written, without following links of other users: whoever may
// write into one of the folders on the way could otherwise lead the write to any file of this user.
// Only the sources of io/ include this.
#pragma once

#include <fcntl.h>

#include <string>

#include "base/status.h"
#include "io/descriptor.h"

namespace forebay::io {

using base::Result;
using base::Status;

// Whether a symbolic link at the end of the path is followed, too, if root or this user made it.
enum class LastLink : uint8_t { kStays, kFollow };

class WritePath {
 public:
  // Walks the path's folders, and follows only links that root or this user made. Errors: kNotFound
  // if a folder is missing; kIo, with the link's path and its owner's number, at other links.
  static Result<WritePath> open(const std::string& path, LastLink last = LastLink::kStays);

  // For openat() and the like.
  int folder() const { return folder_.get() >= 0 ? folder_.get() : AT_FDCWD; }
  Descriptor take_folder() { return std::move(folder_); }
  // The name in that folder; "." if the path is that of a folder without a name, such as "/".
  const char* name() const { return name_.c_str(); }
  // Whether the name is a link of the kernel's own (/proc/self/fd/1), which open() must follow.
  bool is_kernel_link() const { return is_kernel_link_; }

 private:
  WritePath(Descriptor folder, std::string name, bool is_kernel_link)
      : folder_(std::move(folder)), name_(std::move(name)), is_kernel_link_(is_kernel_link) {}

  Descriptor folder_;
  std::string name_;
  bool is_kernel_link_;
};

// Opens a folder in which files are written, by the same rules; its last link is followed. The
// descriptor is for openat() and the like alone (O_PATH).
Result<Descriptor> open_folder_to_write(const std::string& path);

}  // namespace forebay::io
