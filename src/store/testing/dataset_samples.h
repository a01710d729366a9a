// For tests: chunks laid out by hand, and datasets made of them, also such that pack never writes.
#pragma once

#include "store/format/snapshot.h"
#include "store/format/tar.h"
#include "store/snapshot_builder.h"

namespace forebay::store {

using base::ByteVector;

inline const Schema kSchema{.fields = {{"jpg", FieldKind::kImage}, {"cls", FieldKind::kClass}},
                            .classes = {"cat", "dog"}};

struct Chunk {
  ChunkInfo info;
  ChunkIndex index;
  ByteVector bytes;
};

// Lays out a chunk of samples with one file each, whose contents are `images`.
inline Chunk lay_out(ChunkIndex samples, const std::vector<ByteVector>& images) {
  Chunk chunk{.info = {}, .index = std::move(samples), .bytes = {}};
  for (size_t i = 0; i < images.size(); ++i) {
    StoredFile& file = chunk.index.samples[i].files[0];
    file.length = images[i].size();
    file.crc32c = base::crc32c(images[i]);
  }
  chunk.info.index_bytes = encode_chunk_index(chunk.index).size();
  chunk.info.samples = static_cast<uint32_t>(images.size());
  uint64_t at = tar_member_bytes(kChunkIndexName, chunk.info.index_bytes);
  for (auto& sample : chunk.index.samples) {
    sample.files[0].offset = at + kTarBlockBytes;
    at += tar_member_bytes(sample.key + ".jpg", sample.files[0].length);
  }
  const auto append = [&](const std::string& name, Bytes data) {
    append_tar_header(name, data.size(), &chunk.bytes);
    base::ByteWriter(&chunk.bytes).bytes(data);
    append_tar_padding(data.size(), &chunk.bytes);
  };
  append(std::string(kChunkIndexName), encode_chunk_index(chunk.index));
  for (size_t i = 0; i < images.size(); ++i) {
    append(chunk.index.samples[i].key + ".jpg", images[i]);
  }
  append_tar_end(&chunk.bytes);
  chunk.info.bytes = chunk.bytes.size();
  chunk.info.id = base::sha256(chunk.bytes);
  return chunk;
}

// A chunk of `count` samples that are numbered from `first`; each image is its key.
inline Chunk make_chunk(uint64_t first, uint32_t count, const Schema& schema = kSchema) {
  ChunkIndex index{.schema = schema, .samples = {}};
  std::vector<ByteVector> images;
  for (uint32_t i = 0; i < count; ++i) {
    IndexedSample sample{.key = fmt::format("train/{:05}", first + i), .source_path = {}};
    sample.source_path = sample.key + ".JPEG";
    sample.files.push_back({.field = 0, .suffix = "jpg"});
    images.emplace_back(sample.key.begin(), sample.key.end());
    if ((first + i) % 3 != 2) {
      ScalarValue label;
      label.field = 1;
      label.value = static_cast<int64_t>((first + i) % 3);
      sample.scalars.push_back(label);
    }
    index.samples.push_back(sample);
  }
  return lay_out(std::move(index), images);
}

inline constexpr std::array<uint32_t, 3> kCounts = {4, 1, 5};
inline constexpr uint64_t kSamples = 10;
inline const std::string kPath = "/data/set";

// Ten samples in three chunks.
inline std::vector<Chunk> make_chunks() {
  std::vector<Chunk> chunks;
  uint64_t first = 0;
  for (const uint32_t count : kCounts) {
    chunks.push_back(make_chunk(first, count));
    first += count;
  }
  return chunks;
}

// Returns the identity of HEAD, if there is one.
inline std::optional<io::Identity> head_identity(const io::Origin& origin,
                                                 const std::string& path) {
  const auto head = origin.open(head_path(path));
  if (!head) return std::nullopt;
  return (*head)->identity();
}

// Replaces the current snapshot, if there is one.
inline Status write_dataset(io::FileSystem& fs, const std::string& path,
                            const std::vector<Chunk>& chunks) {
  SnapshotBuilder builder(fs, path, kSchema, head_identity(fs, path));
  for (const Chunk& chunk : chunks) {
    RETURN_IF_ERROR(fs.put(chunk_path(path, chunk.info.id), chunk.bytes));
    RETURN_IF_ERROR(builder.add_chunk(chunk.info, chunk.index));
  }
  return base::status_of(builder.commit());
}

// Makes a snapshot of these chunks current. Its parts have `in_part` chunks each, fewer than those
// of SnapshotBuilder.
inline Status write_in_parts(io::FileSystem& fs, const std::string& path, const Schema& schema,
                             const std::vector<Chunk>& chunks, size_t in_part) {
  SnapshotRoot root{.schema = schema, .parts = {}};
  for (size_t begin = 0; begin < chunks.size(); begin += in_part) {
    PartBuilder builder;
    for (size_t i = begin; i < std::min(begin + in_part, chunks.size()); ++i) {
      const auto& [info, index, bytes] = chunks[i];
      builder.add_chunk(info.id, info.bytes, info.index_bytes);
      for (const IndexedSample& sample : index.samples) {
        const StoredFile& image = *image_file(schema, sample);
        builder.add_sample({.length = static_cast<uint32_t>(image.length),
                            .offset = image.offset,
                            .crc32c = image.crc32c,
                            .label = static_cast<int32_t>(class_of(schema, sample))},
                           sample.key);
      }
    }
    const PartBuilder::Encoded part = builder.encode();
    RETURN_IF_ERROR(fs.put(part_path(path, part.ref.id), part.data));
    root.parts.push_back(part.ref);
  }
  const ByteVector bytes = encode_root(root);
  const base::Sha256 id = base::sha256(bytes);
  RETURN_IF_ERROR(fs.put(root_path(path, id), bytes));
  return fs.put(head_path(path), base::as_bytes(encode_head(id)));
}

}  // namespace forebay::store
