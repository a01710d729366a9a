// A dataset opened for reading: a packed dataset, with its current snapshot and the chunks that the
// snapshot names, or data in place (store/in_place_dataset.h). The layout of a packed dataset's
// folder and the grammar of its files are in docs/format.md.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "io/kept_files.h"
#include "io/origin.h"
#include "store/format/chunk.h"
#include "store/format/chunk_index.h"

namespace forebay::store {

// Whether a file's bytes shall stay in the page cache (io::OpenOptions::cached). kAnew means that
// they shall, and that an earlier read gave damaged bytes, so no copy may be used (io::Copies).
enum class Caching : uint8_t { kCached, kUncached, kAnew };
io::OpenOptions open_options(Caching caching, std::optional<io::Identity> known);

// The origin of a chunk, and a path that stands for the chunk in questions to the origin about its
// server, such as io::Origin::is_remote().
struct ChunkOrigin {
  const io::Origin& origin;
  const std::string& path;  // the same for all chunks of a stored dataset; lives as long as it
};

// Options for opening a dataset. They matter only for data that comes over a network.
struct OpenOptions {
  // Keeps metadata that never changes on this machine; null: nothing is kept.
  std::shared_ptr<const io::KeptFiles> kept = {};
  // Whether opening reads the locations of all samples. If false, opening reads some 52 bytes per
  // chunk instead of 16 per sample, and load_locations() must be called before location().
  bool loads_locations = true;
};

// A dataset knows the origin of its bytes, so callers need no file system beside it, and the parts
// of a concatenation may have different origins. Immutable once open: any thread may call anything.
// Samples are numbered from 0 in the order of the chunks and, inside a chunk, of its tar; chunks in
// the order of the snapshot's parts.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const std::string& path() const = 0;
  virtual const Schema& schema() const = 0;
  virtual uint64_t sample_count() const = 0;
  virtual uint32_t chunk_count() const = 0;
  virtual const ChunkInfo& chunk(uint32_t number) const = 0;
  // The path of the chunk's file, only for messages.
  virtual std::string chunk_label(uint32_t number) const = 0;
  // Opens the file that holds the chunk, and checks that it is the file that was listed. Errors:
  // kCorrupt if data in place changed since then, by the file's size and a shard's time of change
  // (without checksums nothing else would tell); kIo and others if the file cannot be opened. A
  // remote file may be opened without asking its server; then the check is part of its reads.
  virtual Result<std::unique_ptr<io::ReadableFile>> open_chunk(
      uint32_t number, Caching caching = Caching::kCached) const = 0;
  virtual ChunkOrigin origin(uint32_t number) const = 0;
  // Whether the chunk comes over a network, so that fewer bytes are worth more requests.
  bool is_remote(uint32_t number) const {
    const ChunkOrigin of = origin(number);
    return of.origin.is_remote(of.path);
  }
  // A name of the chunk that does not depend on where the data is stored: its hash, or for data in
  // place its path below the data's folder.
  virtual std::string chunk_name(uint32_t number) const { return base::to_hex(chunk(number).id); }
  // Returns the chunk that holds a sample.
  virtual uint32_t chunk_of(uint64_t sample) const = 0;
  // Returns where a sample lies; `sample` is below sample_count(). Neither waits nor fails, so the
  // location must be loaded (OpenOptions::loads_locations).
  virtual Location location(uint64_t sample) const = 0;
  // Loads the locations of the samples of these chunks, and waits for that. Errors: those of
  // reading, kCorrupt.
  virtual Status load_locations(std::span<const uint32_t> chunks,
                                const io::ReadOptions& options) const;
  // Same contract as load_locations(), for all chunks.
  virtual Status load_all_locations(const io::ReadOptions& options) const;
  // Whether the locations of the chunk's samples are loaded. Once true, it stays true.
  virtual bool knows_locations(uint32_t chunk) const;
  // The files on this machine that keep metadata of the stored chunk (store/kept.h); null: none.
  virtual const io::KeptFiles* kept(uint32_t chunk) const;
  // Depends only on the content: equal datasets have equal fingerprints, wherever they are stored
  // and however their chunks are divided into parts.
  virtual const base::Sha256& fingerprint() const = 0;

  // Keys are read from the disk at each call. Errors: kIo, kCorrupt, kNotFound.
  virtual Result<std::string> key(uint64_t sample, const io::ReadOptions& options) const = 0;
  Result<std::string> key(uint64_t sample) const { return key(sample, {}); }
  // The path of a sample's image in the source, with its suffix, as far as it is known without
  // reading: always for data in place, else empty (store/columns.h reads it).
  virtual std::string source_path(uint64_t /*sample*/) const { return {}; }
  // The keys of a chunk's samples, in order; much cheaper than key() for each of them.
  virtual Result<std::vector<std::string>> chunk_keys(uint32_t chunk) const;
  virtual Result<std::optional<uint64_t>> find(std::string_view key) const = 0;
  // All samples with this key, in ascending order: a view may have several.
  virtual Result<std::vector<uint64_t>> find_all(std::string_view key) const;
  virtual Result<ChunkIndex> read_chunk_index(uint32_t chunk,
                                              const io::ReadOptions& options) const = 0;
  Result<ChunkIndex> read_chunk_index(uint32_t chunk) const { return read_chunk_index(chunk, {}); }
  // Reads the index of the stored chunk that contains this chunk. A view's chunk may be only a
  // piece of a stored chunk, so the index may list other samples too. Offsets are those in the
  // chunk's file. Errors: same as read_chunk_index(), except that it also works for a view of a
  // packed dataset.
  virtual Result<ChunkIndex> read_stored_index(uint32_t chunk,
                                               const io::ReadOptions& options) const {
    return read_chunk_index(chunk, options);
  }
  // Reads a sample's stored image and checks it. The feed calls this after an image that it read
  // together with others turned out damaged, so no cached copy is used. Errors: kCorrupt (the
  // checksum does not match, or the chunk's file is too short), kTooBig, those of open_chunk() and
  // of reading.
  Status read_file(const Location& location, base::ByteVector* file,
                   const io::ReadOptions& options = {}) const;

  // The base and the samples of a selection (store/view.h); nothing for any other dataset.
  struct Selected {
    std::shared_ptr<const Dataset> base;
    std::span<const uint64_t> samples;  // valid as long as the selection
  };
  virtual std::optional<Selected> selected() const { return std::nullopt; }

  // Whether this is data in place.
  virtual bool in_place() const { return false; }
  // Warnings for the user: what is left out of data in place, that its index is out of date, or
  // that metadata cannot be kept on this machine.
  virtual std::vector<std::string> notes() const { return {}; }
};

// Says how many samples have no class, which the first is, and what follows; empty if all samples
// have one, or none.
std::string note_of_missing_classes(uint64_t without, uint64_t samples, std::string_view first_key);
// The same for a dataset, without reading: it must know all its samples' locations.
std::string note_of_missing_classes(const Dataset& dataset);

// Returns the number of the chunk that holds `sample`.
uint32_t chunk_of(std::span<const ChunkInfo> chunks, uint64_t sample);
// Opens the packed dataset in the folder `path`: reads HEAD, the root and the fixed-width columns;
// keys and chunk indexes are read later, when they are needed. `origin` outlives the dataset.
// Errors: kNotFound (no dataset there), kCorrupt, kTooBig, kUnsupported, kIo.
// store/in_place_dataset.h also opens data in place.
Result<std::shared_ptr<const Dataset>> open_packed(const io::Origin& origin,
                                                   const std::string& path,
                                                   const OpenOptions& options = {});
// Same contract as open_packed(), but returns null if the folder has no HEAD.
Result<std::shared_ptr<const Dataset>> open_if_packed(const io::Origin& origin,
                                                      const std::string& path,
                                                      const OpenOptions& options);

// kTooBig if the image is longer than kImageBytesMax.
Status check_length(const Location& location);
// kCorrupt if `chunk` was too short for these bytes when it was opened. (A read that ends early
// although the file should be long enough is kTruncated, and says nothing about the bytes.)
Status check_inside(const io::ReadableFile& chunk, uint64_t offset, uint64_t length);
// kCorrupt if `file` does not have the checksum of the location; also the errors of check_length().
Status check_file(Bytes file, const Location& location);

}  // namespace forebay::store
