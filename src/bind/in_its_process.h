// Keeps a forked child from touching objects that its parent's threads work on.
#pragma once

#include <utility>

#include "io/machine.h"

namespace forebay::bind {

// Holds an object that threads of this process work on. A forked child has a copy of the object,
// but none of the threads: it cannot wait for them, and one may have been changing the object
// during the fork. So the child neither uses nor destroys its copy.
template <class Pointer>
class InItsProcess {
 public:
  explicit InItsProcess(Pointer pointer)
      : pointer_(new Pointer(std::move(pointer))), process_(io::process_id()) {}
  ~InItsProcess() {
    if (is_here()) delete pointer_;
  }
  InItsProcess(const InItsProcess&) = delete;
  InItsProcess& operator=(const InItsProcess&) = delete;
  bool is_here() const { return process_ == io::process_id(); }
  const Pointer& operator*() const { return *pointer_; }

 private:
  Pointer* pointer_;
  int64_t process_;
};

}  // namespace forebay::bind
