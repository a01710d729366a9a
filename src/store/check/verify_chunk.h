// The part of verify that checks a single chunk.
#pragma once

#include <map>
#include <unordered_map>

#include "image/codec/decode.h"
#include "store/check/verify.h"
#include "store/source/tar_reader.h"

namespace forebay::store {

// One thread at a time may use it.
class ChunkVerifier {
 public:
  ChunkVerifier(const io::Origin& origin, bool pixels) : origin_(origin), pixels_(pixels) {}

  struct Outcome {
    std::vector<Damage> damages;
    std::optional<ChunkIndex> index;  // empty if it could not be read
    uint64_t bytes = 0;
    uint64_t images_decoded = 0;
  };
  // Reads the whole file `path` and checks it. `id` is the chunk's hash; `number` is its number in
  // the snapshot, or -1 for a chunk outside the snapshot. Errors: those of io::is_unanswered(),
  // which end a verification and are never listed as damage.
  Result<Outcome> check(const std::string& path, const base::Sha256& id, int64_t number);

 private:
  void add(std::string sample, int64_t offset, std::string what);
  using SamplesByKey = std::unordered_map<std::string_view, const IndexedSample*>;
  // The files of the index that have not been found in the tar yet: name and length, by offset.
  using ExpectedFiles = std::map<uint64_t, std::pair<std::string, uint64_t>>;
  Status read(const std::string& path);
  void check_tar();
  // Reads the index. Returns false if it is missing or cannot be read.
  bool read_index(const TarMember& member, Bytes content, SamplesByKey* samples,
                  ExpectedFiles* expected);
  void check_member(const TarMember& member, Bytes content, const SamplesByKey& samples,
                    ExpectedFiles* expected);
  void check_scalar_member(const SamplesByKey& samples, const std::string& name, uint64_t offset,
                           Bytes content);
  void check_file(const IndexedSample& sample, const StoredFile& file);
  void check_restart(const IndexedSample& sample, const StoredFile& file, Bytes bytes);
  void check_pixels(const IndexedSample& sample, const StoredFile& file, Bytes bytes);
  void check_region(const IndexedSample& sample, const StoredFile& file, Bytes bytes,
                    base::Pixels full);

  const io::Origin& origin_;
  const bool pixels_;
  std::string path_;
  int64_t number_ = -1;
  base::ByteVector data_;
  Outcome out_;
  image::ImageDecoder decoder_;
};

}  // namespace forebay::store
