// For tests: archives of a few members, and other programs that read and write archives.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "store/format/tar.h"

namespace forebay::store {

// A member to be written, or one that was read.
struct Entry {
  std::string name;
  std::string content;
  bool operator==(const Entry&) const = default;
};

inline base::ByteVector make_tar(const std::vector<Entry>& entries) {
  base::ByteVector out;
  for (const Entry& entry : entries) {
    const uint64_t before = out.size();
    append_tar_header(entry.name, entry.content.size(), &out);
    base::ByteWriter(&out).bytes(base::as_bytes(entry.content));
    append_tar_padding(entry.content.size(), &out);
    EXPECT_EQ(out.size() - before, tar_member_bytes(entry.name, entry.content.size()));
  }
  append_tar_end(&out);
  return out;
}

// A folder in which other programs read and write archives.
class TarTools : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "forebay-tar-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, base::Bytes data) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << base::as_text(data);
  }
  base::ByteVector read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Returns the command's output, including its errors. The command must succeed.
  std::string run(const std::string& command) const {
    const std::string line =
        "cd " + folder_.string() + " && LC_ALL=C.UTF-8 TZ=UTC sh -c '" + command + "' 2>&1";
    FILE* pipe = popen(line.c_str(), "r");
    std::string output;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      output += static_cast<char>(c);
    }
    EXPECT_EQ(pclose(pipe), 0) << output;
    return output;
  }

  std::filesystem::path folder_;
};

// Members whose names need all forms in which headers can store names.
inline std::vector<Entry> difficult_entries() {
  const std::string folder(90, 'f');
  return {{"__forebay__", std::string(1000, 'i')},
          {"a.jpg", ""},
          {"train/dog/0001.jpg", std::string(512, 'x')},
          {"ümlaut/日本.jpg", "utf-8"},
          {std::string(100, 'n'), "as long as the name field"},
          {folder + "/" + folder.substr(0, 60) + "/" + std::string(100, 'n'), "prefix and name"},
          {std::string(101, 'p'), "too long for the name"},
          {folder + "/" + folder + "/" + std::string(90, 'q'), "too long for the prefix"},
          {folder + "/" + std::string(200, 'r') + ".seg.png", std::string(513, 'y')}};
}

}  // namespace forebay::store
