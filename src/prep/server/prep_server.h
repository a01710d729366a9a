// The prep server: prepares the steps that hosts ask for, of one dataset, and serves them as
// batches (docs/decisions/0020-prep-servers.md).
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
  uint16_t port = 0;  // 0: any that is free
  // What hosts must know; empty: only this machine's own processes are served.
  io::Secret secret = {};
  int threads = 0;  // that decode, for each host; 0: io::usable_cores()
  // How many hosts, each loader of each process counted, are served at once. More of them are
  // refused until one leaves.
  uint32_t jobs = 8;
  // For each of them. The tables that they have sent may have half of it, all together.
  uint64_t job_memory_bytes = 2'000'000'000;
  // Where batches are left as files, for hosts that see this folder under the same path and with
  // the same user's rights; all others get them sent. Empty: nowhere.
  std::string folder = "";
  uint64_t folder_bytes = 4'000'000'000;  // of all files
};

struct PrepServerStats {
  uint64_t jobs = 0;         // that are open
  uint64_t steps = 0;        // prepared
  uint64_t bytes = 0;        // of batches that were sent, left as files, or are on their way
  std::string trouble = {};  // why a file could not be written; empty: all could
};

// Any thread may call anything.
class PrepServer {
 public:
  // Errors: those of io::serve::RangeServer::start(); those of BatchFolder::open(); kInvalid for a
  // secret that is too short.
  static Result<std::unique_ptr<PrepServer>> serve(std::shared_ptr<const store::Dataset> dataset,
                                                   const PrepServerOptions& options);
  virtual ~PrepServer() = default;

  virtual uint16_t port() const = 0;
  virtual PrepServerStats stats() const = 0;
};

}  // namespace forebay::prep
