// Builds one chunk: rewrites its samples' files and holds them in memory.
#pragma once

#include "image/shrink.h"
#include "store/format/chunk_index.h"
#include "store/pack/report.h"

namespace forebay::store {

// One thread at a time may use it.
class ChunkBuilder {
 public:
  // Uses these options of `identity`: tar_fields, keep_damaged, resize and masks.
  ChunkBuilder(const Listing& listing, const PackIdentity& identity);

  // The contents of a sample's files, or why they could not be read (SourceReader::take()).
  using Contents = std::vector<Result<base::ByteVector>>;

  // Adds a sample. If its content is bad, leaves it out and returns the reason. Errors: those of
  // reading the sample and of memory.
  Result<std::optional<Remark>> add(const SourceSample& sample, Contents contents);

  size_t samples() const { return index_.samples.size(); }

  struct Finished {
    base::Sha256 id{};
    uint64_t bytes = 0;
    uint64_t index_bytes = 0;
    // The chunk's bytes, in pieces that point into the builder's memory.
    std::vector<Bytes> pieces;
  };
  // Lays the chunk out and hashes it; may be called once. There must be a sample. kTooBig if the
  // chunk is above the limits.
  Result<Finished> finish();

  PackStats stats;

 private:
  // A member of the tar.
  struct Member {
    std::string name;
    base::ByteVector data;
    int32_t file = -1;  // its number in IndexedSample::files; -1 for a scalar
  };
  struct Draft {
    IndexedSample sample;
    std::vector<Member> members;
    PackStats stats;
  };

  Status add_file(base::ByteVector data, const SourceSample& sample, const SourceFile& file,
                  Draft* draft);
  Status add_image(base::ByteVector data, const SourceSample& sample, const SourceFile& file,
                   Draft* draft);
  Result<bool> add_smaller(Bytes data, const SourceFile& file, Draft* draft, std::string* why_kept);
  Status keep_mask(Bytes data, StoredFile* stored, Draft* draft);
  Status keep_image(Bytes data, const std::string& why, StoredFile* stored, Draft* draft);
  Status keep_jpeg(Bytes data, const Status& not_rewritten, const SourceSample& sample,
                   StoredFile* stored, Draft* draft);
  Status add_scalar(base::ByteVector data, const SourceFile& file, Draft* draft);
  static void add_stored(StoredFile stored, base::ByteVector data, Draft* draft);
  // Sets every file's offset, encodes the index, and returns the chunk's size.
  uint64_t lay_out();

  const Listing& listing_;
  const bool tar_fields_;
  const bool keep_damaged_;
  const bool has_masks_;    // whether pack --masks added masks
  const bool has_classes_;  // whether some of the listing's samples may have a class
  std::optional<image::Shrinker> shrinker_;
  ChunkIndex index_;
  std::vector<std::vector<Member>> members_;  // by sample
  base::ByteVector encoded_index_;
  base::ByteVector frame_;  // the tar's bytes around the members' contents: headers, padding, end
  image::ImageDecoder decoder_;
  image::ImageDecoder decoder_of_damaged_{image::Damaged::kDecode};
  base::Pixels pixels_;
};

}  // namespace forebay::store
