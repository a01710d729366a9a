// Checks all data and metadata of a dataset, and lists the damage.
#pragma once

#include <functional>

#include "store/dataset.h"

namespace forebay::store {

// One damage. Unknown values are empty or -1.
struct Damage {
  std::string file;
  int64_t chunk = -1;   // its number in the snapshot
  std::string sample;   // its key
  int64_t offset = -1;  // in `file`
  std::string what;
  bool operator==(const Damage&) const = default;
};

struct VerifyOptions {
  // Whether to decode every image of a packed dataset, and a region of each rewritten one. Images
  // in place are always decoded.
  bool pixels = false;
  int threads = 0;  // 0 means io::usable_cores(); each thread holds one chunk in memory
  std::function<void(uint64_t chunks_done, uint64_t chunks)> progress;  // one thread at a time
};

struct VerifyReport {
  uint64_t chunks = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;
  uint64_t images_decoded = 0;
  std::vector<Damage> damages;         // in the order of the chunks
  std::vector<std::string> leftovers;  // files in chunks/ that the snapshot does not name
  std::vector<std::string> notes;      // Dataset::notes(), and checks that were not possible
};

// Adds a note to the report, unless it is empty.
inline void add_note(std::string note, VerifyReport* report) {
  if (!note.empty()) report->notes.push_back(std::move(note));
}

// Checks of chunks: the SHA-256 against the name, the tar structure, the index, every file's
// CRC32C, every restart segment, and that no key occurs twice in the dataset. Checks of the
// snapshot: HEAD, the root, the parts, and every column against the chunks' indexes; also that
// pack's report can be read and its counts are right. Checks of data in place: each image can be
// read and decoded, has the listed length, and has the checksum in the index if `forebay index`
// stored one. Shards that cannot be read to their end, and samples that pack would refuse and a
// loader leaves out, are damage too. The report lists all damage. An error only means that the
// checks could not be completed: kNotFound (no dataset at all), kNoMemory, those of
// io::is_unanswered() (the origin does not answer), those of resolve_source(), and for data in
// place that there is no image.
Result<VerifyReport> verify(const io::Origin& origin, const std::string& dataset,
                            const VerifyOptions& options);
Result<VerifyReport> verify_in_place(const io::Origin& origin, const std::string& source,
                                     const VerifyOptions& options);

// "chunks/ab.tar: byte 512: sample "a/1" (chunk 3): …"
std::string describe(const Damage& damage);

}  // namespace forebay::store
