#include "bind/without_interpreter.h"

#include <atomic>
#include <thread>

#include "base/mutex.h"
#include "io/clock.h"
#include "io/machine.h"

namespace forebay::bind {
namespace {

std::atomic<bool> ending = false;
std::thread::id ending_thread;  // set before `ending`
std::atomic<int> coming_back = 0;
const int64_t first_process = io::process_id();

void wait_ms(int ms) {
  base::Mutex mutex;
  base::CondVar nobody;
  base::MutexLock lock(mutex);
  const io::Clock& clock = io::monotonic_clock();
  clock.wait_until(mutex, nobody, clock.now_ns() + ms * int64_t{1'000'000});
}

}  // namespace

WithoutInterpreter::~WithoutInterpreter() {
  ++coming_back;
  // The thread that ends the interpreter goes on, because it may still run other atexit functions.
  if (ending && std::this_thread::get_id() != ending_thread) {
    --coming_back;
    for (;;) wait_ms(1000);
  }
  PyEval_RestoreThread(state_);
  --coming_back;
}

void end_interpreter() {
  ending_thread = std::this_thread::get_id();
  ending = true;
  // A forked child does not have its parent's threads, which coming_back may count.
  if (io::process_id() != first_process) return;
  // Threads that are about to take the lock get it now, while there still is an interpreter.
  PyThreadState* const state = PyEval_SaveThread();
  while (coming_back > 0) wait_ms(1);
  PyEval_RestoreThread(state);
}

}  // namespace forebay::bind
