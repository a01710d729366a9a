// A dataset opened for reading: its current snapshot, and the chunks that the snapshot names, or
// data in place (store/in_place_dataset.h). The layout of the folder and the grammar of its files
// are in docs/format.md.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "io/kept_files.h"
#include "io/origin.h"
#include "store/format/chunk.h"
#include "store/format/chunk_index.h"

namespace forebay::store {

// Whether a file's bytes shall stay in the page cache (io::OpenOptions::cached). kAnew: they shall,
// and bytes that came before were damaged (io::Copies).
enum class Caching : uint8_t { kCached, kUncached, kAnew };
io::OpenOptions open_options(Caching caching, std::optional<io::Identity> known);

// The origin that has a chunk, and a path for its questions about the server that answers for it.
struct ChunkOrigin {
  const io::Origin& origin;
  const std::string& path;  // the same for all chunks of a stored dataset; lives as long as it
};

// How a dataset is opened; it matters only for data that comes over a network.
struct OpenOptions {
  // Keeps on this machine what is read about the data, and never changes; null: nothing is kept.
  std::shared_ptr<const io::KeptFiles> kept = {};
  // Whether location() knows all samples from the beginning. Where it does not, opening reads some
  // 52 bytes a chunk instead of 16 a sample, and whoever asks for a location calls
  // load_locations() before.
  bool loads_locations = true;
};

// A dataset knows the origin of its bytes: whoever has the dataset needs no file system beside it,
// and the parts of a concatenation may have different origins. Immutable once open: any thread may
// call anything. Samples are numbered from 0 in the order of the chunks and, inside a chunk, of its
// tar; chunks in the order of the snapshot's parts.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const std::string& path() const = 0;
  virtual const Schema& schema() const = 0;
  virtual uint64_t sample_count() const = 0;
  virtual uint32_t chunk_count() const = 0;
  virtual const ChunkInfo& chunk(uint32_t number) const = 0;
  // Where the chunk lies, for messages and nothing else: the path of its file.
  virtual std::string chunk_label(uint32_t number) const = 0;
  // The file that holds the chunk, which is what was listed. Errors: kCorrupt where data in place
  // changed since, by its size and a shard's time of change (without checksums nothing else would
  // tell); kIo and others when it cannot be opened. A file on a network may be opened without a
  // question; its reads then refuse what was not listed.
  virtual Result<std::unique_ptr<io::ReadableFile>> open_chunk(
      uint32_t number, Caching caching = Caching::kCached) const = 0;
  virtual ChunkOrigin origin(uint32_t number) const = 0;
  // Whether the chunk comes over a network, so that fewer bytes are worth more requests.
  bool is_remote(uint32_t number) const {
    const ChunkOrigin of = origin(number);
    return of.origin.is_remote(of.path);
  }
  // What the chunk is called wherever the data lies: its hash, or for data in place its path below
  // the data's folder.
  virtual std::string chunk_name(uint32_t number) const { return base::to_hex(chunk(number).id); }
  // The chunk that holds sample `sample`, by the chunks' first samples.
  virtual uint32_t chunk_of(uint64_t sample) const = 0;
  // Returns where a sample lies; `sample` is below sample_count(). It neither waits nor fails, so
  // it must be known (OpenOptions::loads_locations).
  virtual Location location(uint64_t sample) const = 0;
  // Makes location() known for the samples of these chunks, and waits for that. Errors: those of
  // reading, kCorrupt.
  virtual Status load_locations(std::span<const uint32_t> chunks,
                                const io::ReadOptions& options) const;
  // The same for all chunks.
  virtual Status load_all_locations(const io::ReadOptions& options) const;
  // Whether location() knows the samples of the chunk. Once true, it stays true.
  virtual bool knows_locations(uint32_t chunk) const;
  // What keeps things about the stored chunk on this machine (store/kept.h); null: nothing does.
  virtual const io::KeptFiles* kept(uint32_t chunk) const;
  // Depends on the content alone: equal datasets have equal fingerprints, wherever they lie and
  // however their chunks are divided into parts.
  virtual const base::Sha256& fingerprint() const = 0;

  // Keys are read from the disk at each call. Errors: kIo, kCorrupt, kNotFound.
  virtual Result<std::string> key(uint64_t sample, const io::ReadOptions& options) const = 0;
  Result<std::string> key(uint64_t sample) const { return key(sample, {}); }
  // The keys of a chunk's samples, in order; much cheaper than one by one.
  virtual Result<std::vector<std::string>> chunk_keys(uint32_t chunk) const;
  virtual Result<std::optional<uint64_t>> find(std::string_view key) const = 0;
  // All samples with this key, in ascending order: a view may have several.
  virtual Result<std::vector<uint64_t>> find_all(std::string_view key) const;
  virtual Result<ChunkIndex> read_chunk_index(uint32_t chunk,
                                              const io::ReadOptions& options) const = 0;
  Result<ChunkIndex> read_chunk_index(uint32_t chunk) const { return read_chunk_index(chunk, {}); }
  // The index of the stored chunk that a chunk is all or a piece of: it may have other samples too.
  // Places in it are those in the chunk's file. Errors: like read_chunk_index(), but views have
  // stored chunks if what they view has.
  virtual Result<ChunkIndex> read_stored_index(uint32_t chunk,
                                               const io::ReadOptions& options) const {
    return read_chunk_index(chunk, options);
  }
  // A sample's image as it is stored, checked. The feed asks for it where what it read with others
  // was damaged, so no copy is used. Errors: kCorrupt (its checksum, or its chunk's file
  // is shorter), kTooBig, those of open_chunk() and of reading.
  Status read_file(const Location& location, base::ByteVector* file,
                   const io::ReadOptions& options = {}) const;

  // What this selects samples of (store/view.h); nothing where it is no selection.
  struct Selected {
    std::shared_ptr<const Dataset> base;
    std::span<const uint64_t> samples;  // which live as long as this
  };
  virtual std::optional<Selected> selected() const { return std::nullopt; }

  // Whether this is data in place.
  virtual bool in_place() const { return false; }
  // Messages for whoever opened data in place: what is left out, or that an index is out of date.
  virtual std::vector<std::string> notes() const { return {}; }
};

// The chunk that holds `sample`, by the chunks' first samples.
uint32_t chunk_of(std::span<const ChunkInfo> chunks, uint64_t sample);
// Opens the packed dataset in the folder `path`: reads HEAD, the root and the fixed-width columns;
// keys and chunk indexes stay where they are. `origin` outlives the dataset. Errors: kNotFound (no
// dataset there), kCorrupt, kTooBig, kUnsupported, kIo. What opens data in place too:
// store/in_place_dataset.h.
Result<std::shared_ptr<const Dataset>> open_packed(const io::Origin& origin,
                                                   const std::string& path,
                                                   const OpenOptions& options = {});
// The same, but null where the folder has no HEAD.
Result<std::shared_ptr<const Dataset>> open_if_packed(const io::Origin& origin,
                                                      const std::string& path,
                                                      const OpenOptions& options);

// kTooBig when the image is longer than an image may be.
Status check_length(const Location& location);
// kCorrupt when `chunk` was too short for these bytes already when it was opened. (A read that ends
// early although the file should be long enough is kTruncated, and says nothing about the bytes.)
Status check_inside(const io::ReadableFile& chunk, uint64_t offset, uint64_t length);
// kCorrupt when `file` does not have the checksum that is known for it; also the errors of
// check_length().
Status check_file(Bytes file, const Location& location);

}  // namespace forebay::store
