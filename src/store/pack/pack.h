// Makes a dataset from a source. A pack may be interrupted at any time, by a signal, a full disk or
// a power loss: the same command resumes it. This does not change the dataset's bytes, which depend
// only on the source, the identity (report.h) and the version of Forebay.
#pragma once

#include <atomic>
#include <functional>

#include "io/file_system.h"
#include "store/pack/labels.h"
#include "store/pack/report.h"
#include "store/pack/skip_max.h"
#include "store/source/image_names.h"

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
  // With OnError::kSkip: if more samples than this are refused, all others are packed, but the
  // dataset is not committed (kCorrupt). The same pack with a larger limit then completes the
  // dataset without reading the samples again.
  SkipMax skip_max;
  // Whether to store a JPEG with damaged pixel data unchanged, if libjpeg-turbo still decodes it.
  // Otherwise its sample is refused.
  bool keep_damaged = false;
  // Makes larger images smaller, which is lossy; unset: all images keep their sizes.
  std::optional<image::Shrink> resize;
  std::string annotations;  // a file of annotations in COCO's format; empty: none
  std::string masks;        // another source, with a mask for each image; empty: none
  NamePatterns mask_names;  // which mask belongs to which image
  LabelOptions labels;      // a table with the samples' classes and other texts
  uint64_t limit = 0;       // samples to pack; 0 means all
  bool tar_fields = false;  // whether to write a folder's classes, and annotations, as members too
  // Any thread may set this to stop soon (kCancelled): reads are cancelled, and only chunks that
  // are being written are finished.
  const std::atomic<bool>* stop = nullptr;
  // Called at most ten times a second and at the end, by one thread at a time.
  std::function<void(const PackProgress&)> progress;
};

// Packs `source` into the folder `dataset` of `to`. Source, annotations and masks lie at the origin
// `from`. On file systems without locks, several runs of the same pack may work at the same time
// and make the same dataset. Errors: kBusy (another pack works there), kExists (the folder holds
// something else, or a pack with other options or of another source), kChanged (another process
// committed there), kUnsupported (an earlier version of Forebay began the pack), kCancelled,
// kCorrupt (more samples were refused than skip_max allows), and those of listing the source, of
// the disk and of memory.
Result<PackReport> pack(const io::Origin& from, const std::string& source, io::FileSystem& to,
                        const std::string& dataset, const PackOptions& options);

}  // namespace forebay::store
