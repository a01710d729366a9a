// The part of verify that looks at one chunk by itself.
#pragma once

#include <unordered_map>

#include "image/decode.h"
#include "store/verify.h"

namespace forebay::store {

// One thread at a time.
class ChunkVerifier {
 public:
  ChunkVerifier(const io::FileSystem& fs, bool pixels) : fs_(fs), pixels_(pixels) {}

  struct Outcome {
    std::vector<Damage> damages;
    std::optional<ChunkIndex> index;  // where it could be read
    uint64_t bytes = 0;
    uint64_t images_decoded = 0;
  };
  // The file `path`, which is chunk `id` of the snapshot at place `number` (-1: of none).
  Outcome check(const std::string& path, const base::Sha256& id, int64_t number);

 private:
  void add(std::string sample, int64_t offset, std::string what);
  void check_tar(const io::RandomFile& file);
  using SamplesByKey = std::unordered_map<std::string_view, const IndexedSample*>;
  void check_scalar_member(const SamplesByKey& samples, const std::string& name, uint64_t offset,
                           Bytes content);
  void check_file(const IndexedSample& sample, const StoredFile& file);
  void check_restart(const IndexedSample& sample, const StoredFile& file, Bytes bytes);
  void check_pixels(const IndexedSample& sample, const StoredFile& file, Bytes bytes);
  void check_region(const IndexedSample& sample, const StoredFile& file, Bytes bytes,
                    base::Pixels full);

  const io::FileSystem& fs_;
  const bool pixels_;
  std::string path_;
  int64_t number_ = -1;
  base::ByteVector data_;
  Outcome out_;
  image::ImageDecoder decoder_;
};

}  // namespace forebay::store
