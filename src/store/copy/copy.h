// Copies a packed dataset to another place. Chunks, parts and the root are compared with the hashes
// that name them; pack's report, which has none, must be one that can be read. The copy is the
// target's current dataset only when all of it is stored. A copy may be interrupted at any instant:
// the same copy goes on from there.
#pragma once

#include <atomic>
#include <functional>

#include "base/checksum.h"
#include "io/file_system.h"

namespace forebay::store {

struct CopyProgress {
  uint64_t chunks = 0;  // at the target, including those that were there before
  uint64_t chunks_total = 0;
  uint64_t bytes = 0;  // of the chunks at the target, and those read of the chunks on their way
  uint64_t bytes_total = 0;
  uint64_t bytes_now = 0;  // read in this run, within `seconds`
  double seconds = 0;
};

struct CopyOptions {
  // How many chunks are copied at the same time. Each of them is in memory whole. 0 means as many
  // as there are usable cores, but at least 8 where one of the places is far away, and fewer where
  // memory is short.
  int threads = 0;
  // Set by anyone to stop soon (kCancelled): reads end, and only what is being written is finished.
  const std::atomic<bool>* stop = nullptr;
  // Called at most ten times a second and at the end, by one thread at a time.
  std::function<void(const CopyProgress&)> progress = {};
};

struct CopyReport {
  base::Sha256 root{};  // the hash of the snapshot's root, which is now the target's current one
  uint64_t samples = 0;
  uint64_t chunks = 0;
  uint64_t bytes = 0;          // of all chunks
  uint64_t chunks_copied = 0;  // by this run; the others were there
  uint64_t bytes_copied = 0;   // of these chunks
  bool was_complete = false;   // whether nothing was missing
};

// Copies the current snapshot of the packed dataset `source`, which lies at the origin `from`, into
// the folder `target` of `to`. The target has no dataset yet, or this very snapshot, whose missing
// chunks are then copied, and those that have another size. Other files of the source are not
// copied. Where there are no locks, several runs of the same copy may work at the same time.
// Errors: kNotFound (the source is no packed dataset, or lacks a chunk), kCorrupt (bytes of the
// source do not have the hash that names them, or the report is damaged), kInvalid (the target is
// the source or lies inside it), kExists (the target holds something else), kChanged (somebody else
// made another dataset there meanwhile), kBusy (another process writes there), kUnsupported (the
// target cannot be written), kCancelled, and those of both origins and of memory.
base::Result<CopyReport> copy_dataset(const io::Origin& from, const std::string& source,
                                      io::FileSystem& to, const std::string& target,
                                      const CopyOptions& options);

}  // namespace forebay::store
