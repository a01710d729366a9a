// A value that each process makes for itself. A forked process cannot use its parent's value: the
// parent's threads do not exist there, and one of them may have held a mutex.
#pragma once

#include <atomic>
#include <memory>

#include "io/machine.h"

namespace forebay::io {

// Any thread may call anything, in any process; nothing waits.
template <class Value>
class PerProcess {
 public:
  PerProcess() = default;
  // Leaves another process's value alone.
  ~PerProcess() {
    Own* const own = own_;
    if (own != nullptr && own->process == process_id()) delete own;
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // Null if this process has none yet.
  Value* find() const {
    const Own* const own = own_;
    return own != nullptr && own->process == process_id() ? own->value.get() : nullptr;
  }
  // Keeps the value, unless another thread of this process was faster. Returns the value that is
  // kept.
  Value& keep(std::unique_ptr<Value> value) {
    auto fresh = std::make_unique<Own>(process_id(), std::move(value));
    Own* own = own_;
    while (own == nullptr || own->process != fresh->process) {
      if (own_.compare_exchange_strong(own, fresh.get())) return *fresh.release()->value;
    }
    return *own->value;
  }

 private:
  struct Own {
    Own(int64_t owner, std::unique_ptr<Value> made) : process(owner), value(std::move(made)) {}
    const int64_t process;
    const std::unique_ptr<Value> value;
  };
  std::atomic<Own*> own_ = nullptr;
};

}  // namespace forebay::io
