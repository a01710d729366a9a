// Checks everything that a dataset promises, and lists all that does not hold.
#pragma once

#include <functional>

#include "store/dataset.h"

namespace forebay::store {

// One thing that is not as it should be. What is unknown stays empty or -1.
struct Damage {
  std::string file;
  int64_t chunk = -1;   // in the snapshot
  std::string sample;   // its key
  int64_t offset = -1;  // in `file`
  std::string what;
  bool operator==(const Damage&) const = default;
};

struct VerifyOptions {
  // Decode every image of a packed dataset, and a region of each rewritten one; images in place are
  // always decoded.
  bool pixels = false;
  int threads = 0;  // 0: io::usable_cores(); each holds one chunk in memory
  std::function<void(uint64_t chunks_done, uint64_t chunks)> progress;  // one thread at a time
};

struct VerifyReport {
  uint64_t chunks = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;
  uint64_t images_decoded = 0;
  std::vector<Damage> damages;         // in the order of the chunks
  std::vector<std::string> leftovers;  // chunks that the snapshot does not name
  std::vector<std::string> notes;      // Dataset::notes, and what could not be checked
};

// Chunks: SHA-256 against the name, tar structure, the index, every file's CRC32C, every restart
// segment, no key twice in the dataset. Snapshot: HEAD, root, parts, every column against the
// chunks' indexes; of pack's report that it can be read and its counts are right. Damage is in the
// report; errors are only what keeps from looking: kNotFound (no dataset at all), kNoMemory.
// Data in place: that each image can be read and decoded, is as long as it was listed, and has the
// checksum that `forebay index` kept, where it did; shards that cannot be read to their end, and
// what pack would refuse and a loader leaves out, are damage too. Errors also those of find_source,
// and where there is no image at all.
Result<VerifyReport> verify(const io::FileSystem& fs, const std::string& dataset,
                            const VerifyOptions& options);
Result<VerifyReport> verify_in_place(const io::FileSystem& fs, const std::string& source,
                                     const VerifyOptions& options);

// "chunks/ab.tar: byte 512: sample "a/1" (chunk 3): …"
std::string describe(const Damage& damage);

}  // namespace forebay::store
