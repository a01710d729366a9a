// For tests: small sources to pack, and the files of a dataset after a pack.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "io/testing/memory.h"
#include "jpeg/testing/jpeg_samples.h"
#include "store/check/verify.h"
#include "store/format/tar.h"
#include "store/pack/pack.h"

namespace forebay::store {

using base::ByteVector;

inline ByteVector test_jpeg(uint32_t width, uint32_t height, uint64_t seed) {
  return jpeg::make_jpeg({.width = width, .height = height, .quality = 85}, seed);
}

inline void put(io::FileSystem& fs, const std::string& path, base::Bytes data) {
  ASSERT_TRUE(fs.put(path, data).ok());
}

// Writes three classes of JPEGs of different sizes.
inline void make_source(io::FileSystem& fs, int images = 24) {
  for (uint32_t i = 0; i < static_cast<uint32_t>(images); ++i) {
    const std::string name = fmt::format("src/{}/{:03}.jpg", i % 3 == 0 ? "cat" : "dog", i);
    put(fs, name, test_jpeg(120 + i * 4, 90 + i * 3, i));
  }
}

inline PackOptions small_chunks(int threads = 1) {
  PackOptions options;
  options.threads = threads;
  options.chunk_bytes = 64 << 10;
  return options;
}

// Source and dataset are in one file system.
inline Result<PackReport> pack(io::FileSystem& fs, const std::string& source,
                               const std::string& dataset, const PackOptions& options) {
  return pack(fs, source, fs, dataset, options);
}

// Returns every file of the dataset except the lock.
inline std::map<std::string, ByteVector> contents(const io::Origin& fs, const std::string& folder) {
  std::map<std::string, ByteVector> out;
  const auto entries = fs.list(folder).value();
  for (const auto& entry : entries) {
    const std::string path = io::join_path(folder, entry.name);
    if (entry.type == io::FileType::kDirectory) {
      out.merge(contents(fs, path));
    } else if (entry.name != "LOCK") {
      out[path] = fs.read_whole(path, 1u << 30).value();
    }
  }
  return out;
}

inline std::vector<std::string> damages(const io::Origin& fs, const std::string& dataset,
                                        bool pixels = true) {
  const auto report = verify(fs, dataset, {.pixels = pixels, .threads = 1, .progress = {}});
  if (!report) return {report.error().message()};
  std::vector<std::string> out;
  for (const Damage& damage : report->damages) out.push_back(describe(damage));
  return out;
}

// Appends a file to a tar that is being made.
inline void add_member(const std::string& name, base::Bytes data, ByteVector* tar) {
  append_tar_header(name, data.size(), tar);
  tar->insert(tar->end(), data.begin(), data.end());
  append_tar_padding(data.size(), tar);
}

}  // namespace forebay::store
