// Makes a dataset from a source. Interrupted at any instant, by a signal, a full disk or a power
// loss, it goes on where it was when the same command is given again, and the dataset's bytes do
// not tell: they follow from the source and the identity (report.h) alone, for one version of
// Forebay.
#pragma once

#include <atomic>
#include <functional>

#include "store/report.h"
#include "store/skip_max.h"

namespace forebay::store {

struct PackProgress {
  uint64_t samples = 0;  // done, those of earlier runs among them
  uint64_t samples_total = 0;
  uint64_t bytes = 0;  // of the source
  uint64_t bytes_total = 0;
  uint64_t chunks = 0;
  uint64_t chunks_total = 0;
  uint64_t refused = 0;
  uint64_t samples_now = 0;  // in this run, within `seconds`
  uint64_t bytes_now = 0;
  double seconds = 0;
};

enum class OnError : uint8_t { kSkip, kStop };

struct PackOptions {
  int threads = 0;  // 0: io::usable_cores(); each holds one chunk in memory
  uint64_t chunk_bytes = 64'000'000;
  bool shuffled = true;
  uint64_t seed = 0;
  // What to do about bad content. A failing disk or memory always stops.
  OnError on_error = OnError::kSkip;
  // With OnError::kSkip: when more samples are refused, all others are packed, but the dataset is
  // not committed (kCorrupt); the same pack that allows more completes it without reading them
  // again.
  SkipMax skip_max;
  // Whether a JPEG whose pixels' data is damaged is kept as it is, where libjpeg-turbo still makes
  // something of it; else its sample is refused.
  bool keep_damaged = false;
  uint64_t limit = 0;                       // 0: all samples
  bool tar_fields = false;                  // a folder's classes as .cls members too
  const std::atomic<bool>* stop = nullptr;  // set by anyone to stop soon (kCancelled)
  // Called at most ten times a second, and at the end; by one thread at a time.
  std::function<void(const PackProgress&)> progress;
};

// Errors: kBusy (another pack works there), kExists (the folder holds something else, or a pack
// with other options or another source), kCancelled, kCorrupt (more was refused than may be), those
// of the source's listing, of the disk and of memory.
Result<PackReport> pack(io::FileSystem& fs, const std::string& source, const std::string& dataset,
                        const PackOptions& options);

}  // namespace forebay::store
