// Copies a packed dataset to another place. Chunks, parts and the root are compared with the hashes
// in their names; pack's report has no hash, so it is only parsed. HEAD is stored last, so the
// target becomes a dataset only when it is complete. A copy may be interrupted at any time;
// repeating it resumes it.
#pragma once

#include <atomic>
#include <functional>

#include "base/checksum.h"
#include "io/file_system.h"

namespace forebay::store {

struct CopyProgress {
  uint64_t chunks = 0;  // chunks at the target, including those of earlier runs
  uint64_t chunks_total = 0;
  uint64_t bytes = 0;  // bytes of the chunks at the target, and read so far of chunks in progress
  uint64_t bytes_total = 0;
  uint64_t bytes_now = 0;  // bytes read in this run, within `seconds`
  double seconds = 0;
};

struct CopyOptions {
  // How many chunks are copied at the same time. Each of them is in memory as a whole. 0 means as
  // many as there are usable cores, but at least 8 if the source or the target is remote, and fewer
  // if memory is short.
  int threads = 0;
  // Any thread may set this to stop soon (kCancelled): reads are cancelled, and only chunks that
  // are being written are finished.
  const std::atomic<bool>* stop = nullptr;
  // Called at most ten times a second and at the end, by one thread at a time.
  std::function<void(const CopyProgress&)> progress = {};
};

struct CopyReport {
  base::Sha256 root{};  // the hash of the root of the snapshot that was copied
  uint64_t samples = 0;
  uint64_t chunks = 0;
  uint64_t bytes = 0;          // of all chunks
  uint64_t chunks_copied = 0;  // by this run; the others were at the target already
  uint64_t bytes_copied = 0;   // of the chunks that this run copied
  bool was_complete = false;   // whether nothing was missing
};

// Copies the current snapshot of the packed dataset `source`, which lies at the origin `from`, into
// the folder `target` of `to`. The target must have no dataset yet, or this same snapshot; then
// chunks that are missing or have another size are copied. Other files of the source are not
// copied. On file systems without locks, several runs of the same copy may work at the same time.
// Errors: kNotFound (the source is not a packed dataset, or lacks a chunk), kCorrupt (bytes of the
// source do not match the hash in their file's name, or the report is damaged), kInvalid (the
// target is the source or lies inside it), kExists (the target holds something else), kChanged
// (another process made another dataset there meanwhile), kBusy (another process writes there),
// kUnsupported (the target cannot be written), kCancelled, and those of both origins and of memory.
base::Result<CopyReport> copy_dataset(const io::Origin& from, const std::string& source,
                                      io::FileSystem& to, const std::string& target,
                                      const CopyOptions& options);

}  // namespace forebay::store
