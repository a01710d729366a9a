// For tests: data in place, in the file system in memory.
#pragma once

#include "store/in_place_dataset.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {

inline std::shared_ptr<const Dataset> open(const io::Origin& fs, const std::string& path) {
  auto dataset = open_dataset(fs, path);
  EXPECT_TRUE(dataset) << base::status_of(dataset).message();
  return dataset.value_or(nullptr);
}

// Writes two shards, in which the image stands before, between and after the other files of its
// sample; the class of the last sample is no number.
inline void put_shards(io::MemoryFileSystem& fs, const std::string& folder) {
  ByteVector first;
  add_member("a/0.jpg", base::as_bytes("zero"), &first);
  add_member("a/0.cls", base::as_bytes("3\n"), &first);
  add_member("a/1.cls", base::as_bytes("1"), &first);
  add_member("a/1.png", base::as_bytes("one"), &first);
  add_member("a/1.txt", base::as_bytes("a text"), &first);
  append_tar_end(&first);
  ByteVector second;
  add_member("b.json", base::as_bytes("{}"), &second);
  add_member("b.JPEG", base::as_bytes("bee"), &second);
  add_member("c.jpg", base::as_bytes("sea"), &second);
  add_member("c.cls", base::as_bytes("many"), &second);
  append_tar_end(&second);
  put(fs, folder + "/x-0.tar", first);
  put(fs, folder + "/x-1.tar", second);
}

// Returns the samples as texts "key label content".
inline std::vector<std::string> samples_of(const Dataset& dataset) {
  std::vector<std::string> out;
  for (uint64_t i = 0; i < dataset.sample_count(); ++i) {
    const Location location = dataset.location(i);
    base::ByteVector file;
    const Status status = dataset.read_file(location, &file);
    out.push_back(fmt::format("{} {} {}", dataset.key(i).value(), location.label,
                              status.ok() ? base::as_text(file) : status.message()));
    EXPECT_EQ(dataset.find(dataset.key(i).value()).value(), i);
  }
  return out;
}

// Writes two shards with the same keys, and with classes by folders inside them.
inline void put_folders_in_shards(io::MemoryFileSystem& fs, const std::string& folder) {
  for (uint64_t shard = 0; shard < 2; ++shard) {
    ByteVector tar;
    add_member("dog/0.jpg", test_jpeg(40, 30, shard), &tar);
    add_member("cat/0.jpg", test_jpeg(30, 40, shard), &tar);
    append_tar_end(&tar);
    put(fs, fmt::format("{}/x-{}.tar", folder, shard), tar);
  }
}

}  // namespace forebay::store
