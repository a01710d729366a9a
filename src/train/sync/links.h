// The threads that move what an exchange sends, sums and receives, through the job's connections:
// two for each peer, or one for sums over all processes.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "io/mesh.h"
#include "train/sync/exchange.h"
#include "train/sync/sums.h"

namespace forebay::train {

// The training thread calls it.
class Links {
 public:
  // Starts the threads. `has_sums`: whether the strategy sums numbers over all processes, and sends
  // no messages. Errors: kNoMemory if the system refuses a thread; then all connections of the job
  // have ended.
  static Result<std::unique_ptr<Links>> start(Exchange& exchange, io::Mesh& mesh, bool has_sums);
  // Ends all connections of the job at once, unless close() has returned true.
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Says that this process makes no further step, and waits until all others have said so too.
  // Until then it answers their messages and takes part in their sums. Returns whether all have
  // ended at the deadline, on the clock of monotonic_ns(); it may be called again.
  bool close(int64_t deadline_ns) EXCLUDES(mutex_);
  // The processes for whose part in a sum this process waits; after close(), those that have not
  // ended.
  std::vector<uint32_t> waits_for() const;

 private:
  Links(Exchange& exchange, io::Mesh& mesh) : exchange_(exchange), mesh_(mesh) {}
  Status begin(void (Links::*job)(uint32_t), uint32_t peer);
  Status begin_all(bool has_sums);
  void send(uint32_t peer);
  void receive(uint32_t peer);
  void sum(uint32_t unused);
  Status sum_all();

  Exchange& exchange_;
  io::Mesh& mesh_;
  std::unique_ptr<Sums> sums_;
  bool is_closed_ = false;
  base::Mutex mutex_;
  base::CondVar ended_;
  size_t running_ GUARDED_BY(mutex_) = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace forebay::train
