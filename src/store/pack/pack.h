// Makes a dataset from a source. A pack may be interrupted at any instant, by a signal, a full disk
// or a power loss: the same command goes on from there. The dataset's bytes do not show it, because
// they follow from the source and the identity (report.h) alone, for one version of Forebay.
#pragma once

#include <atomic>
#include <functional>

#include "io/file_system.h"
#include "store/pack/report.h"
#include "store/pack/skip_max.h"

namespace forebay::store {

struct PackProgress {
  uint64_t samples = 0;  // done, including those of earlier runs
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
  int threads = 0;  // 0 means io::usable_cores(); each thread holds two chunks in memory
  uint64_t chunk_bytes = 64'000'000;
  bool shuffled = true;
  uint64_t seed = 0;
  // What to do about bad content. A failing disk or memory always stops.
  OnError on_error = OnError::kSkip;
  // With OnError::kSkip: if more samples are refused, all others are packed, but the dataset is not
  // committed (kCorrupt). The same pack that allows more completes the dataset without reading the
  // samples again.
  SkipMax skip_max;
  // Whether a JPEG whose pixel data is damaged is kept as it is, if libjpeg-turbo still decodes it.
  // Otherwise its sample is refused.
  bool keep_damaged = false;
  // Makes larger images smaller, which loses something of them; unset: all are stored as they are.
  std::optional<image::Shrink> resize;
  std::string annotations;  // a file of annotations in COCO's format; empty: none
  std::string masks;        // where each image's mask is: another source; empty: nowhere
  uint64_t limit = 0;       // samples to pack; 0 means all
  bool tar_fields = false;  // write a folder's classes, and annotations, as members too
  // Set by anyone to stop soon (kCancelled): reads end, and only what is being written is finished.
  const std::atomic<bool>* stop = nullptr;
  // Called at most ten times a second and at the end, by one thread at a time.
  std::function<void(const PackProgress&)> progress;
};

// Packs `source`, which lies at the origin `from` like annotations and masks, into the folder
// `dataset` of `to`. Where there are no locks, several runs of the same pack may work at the same
// time and make the same dataset. Errors: kBusy (another pack works there), kExists (the folder
// holds something else, or a pack with other options or of another source), kChanged (somebody else
// committed there), kUnsupported (an earlier version of Forebay began the pack), kCancelled,
// kCorrupt (more samples were refused than skip_max allows), and those of listing the source, of
// the disk and of memory.
Result<PackReport> pack(const io::Origin& from, const std::string& source, io::FileSystem& to,
                        const std::string& dataset, const PackOptions& options);

}  // namespace forebay::store
