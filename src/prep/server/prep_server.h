// A prep server: prepares steps of one dataset for hosts, and serves them as batches
// (docs/decisions/0020-prep-servers.md).
#pragma once

#include <memory>
#include <string>

#include "io/secret.h"
#include "store/dataset.h"

namespace forebay::prep {

using base::Result;
using base::Status;

struct PrepServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0: any free port
  // The secret that hosts must have; empty: serves this machine's own processes only.
  io::Secret secret = {};
  int threads = 0;  // that decode, for each job; 0: io::usable_cores()
  // How many jobs are served at once: each loader of each process has a job. Further jobs are
  // refused until one ends.
  uint32_t jobs = 8;
  // For each job. The tables of all jobs together may take half as much.
  uint64_t job_memory_bytes = 2'000'000'000;
  // Where batches are left as files, for hosts that see this folder under the same path and have
  // the same user's rights; other hosts get their batches sent. Empty: all batches are sent.
  std::string folder = "";
  uint64_t folder_bytes = 4'000'000'000;  // of all files
};

struct PrepServerStats {
  uint64_t jobs = 0;         // open
  uint64_t steps = 0;        // prepared
  uint64_t bytes = 0;        // of batches that were sent, left as files, or are on their way
  std::string trouble = {};  // why a file could not be written; empty if all were
};

// Any thread may call anything.
class PrepServer {
 public:
  // Serves until the result is destroyed. Errors: those of io::serve::RangeServer::start(); those
  // of BatchFolder::open(); kInvalid for a secret that is too short.
  static Result<std::unique_ptr<PrepServer>> serve(std::shared_ptr<const store::Dataset> dataset,
                                                   const PrepServerOptions& options);
  virtual ~PrepServer() = default;

  virtual uint16_t port() const = 0;
  virtual PrepServerStats stats() const = 0;
};

}  // namespace forebay::prep
