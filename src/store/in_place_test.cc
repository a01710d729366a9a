#include "store/in_place.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "store/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::HasSubstr;

std::shared_ptr<const Dataset> open(const io::FileSystem& fs, const std::string& path) {
  auto dataset = open_dataset(fs, path);
  EXPECT_TRUE(dataset) << base::status_of(dataset).message();
  return dataset.value_or(nullptr);
}

TEST(InPlace, IsTheFolderInItsOrder) {
  io::MemoryFileSystem fs;
  put(fs, "/set/b/2.jpg", base::as_bytes("second"));
  put(fs, "/set/b/1.PNG", base::as_bytes("first!"));
  put(fs, "/set/a/deep/9.jpeg", base::as_bytes("nine"));
  put(fs, "/set/a/notes.txt", base::as_bytes("no image"));
  const auto dataset = open(fs, "/set");
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->schema().classes, (std::vector<std::string>{"a", "b"}));
  const std::vector<std::string> keys{"a/deep/9", "b/1", "b/2"};
  const std::vector<std::string> contents{"nine", "first!", "second"};
  ASSERT_EQ(dataset->sample_count(), keys.size());
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const Location location = dataset->location(i);
    EXPECT_EQ(dataset->key(i).value(), keys[i]);
    EXPECT_EQ(dataset->find(keys[i]).value(), i);
    EXPECT_EQ(dataset->chunk_of(i), i);
    EXPECT_EQ(location.label, i == 0 ? 0 : 1);
    base::ByteVector file;
    ASSERT_TRUE(read_file_at(fs, *dataset, location, &file).ok());
    EXPECT_EQ(base::as_text(file), contents[i]);
  }
  EXPECT_EQ(dataset->find("b/3").value(), std::nullopt);
  EXPECT_EQ(dataset->find("").value(), std::nullopt);
  EXPECT_EQ(dataset->read_chunk_index(0).error().code(), Code::kUnsupported);
}

TEST(InPlace, FingerprintIsOfNamesClassesAndSizes) {
  const auto fingerprint = [](const std::string& root, std::string_view name,
                              std::string_view text) {
    io::MemoryFileSystem fs;
    put(fs, root + "/a/1.jpg", base::as_bytes("one"));
    put(fs, root + "/b/" + std::string(name), base::as_bytes(text));
    return open(fs, root)->fingerprint();
  };
  const auto expected = fingerprint("/set", "2.jpg", "two");
  EXPECT_EQ(fingerprint("/elsewhere/set", "2.jpg", "two"), expected);
  EXPECT_NE(fingerprint("/set", "3.jpg", "two"), expected);
  EXPECT_NE(fingerprint("/set", "2.jpg", "three"), expected);
}

TEST(InPlace, SaysWhatItCannotRead) {
  io::MemoryFileSystem fs;
  const auto error = [&](const std::string& path) { return open_dataset(fs, path).error(); };
  EXPECT_EQ(error("/nowhere").code(), Code::kNotFound);
  put(fs, "/flat/1.jpg", base::as_bytes("one"));
  EXPECT_THAT(error("/flat").message(), HasSubstr("no subfolders"));
  put(fs, "/broken/HEAD", base::as_bytes("nothing"));
  put(fs, "/broken/a/1.jpg", base::as_bytes("one"));
  EXPECT_THAT(error("/broken").message(), HasSubstr("HEAD"));
  put(fs, "/shards/1.tar", base::as_bytes(std::string(1024, '\0')));
  EXPECT_FALSE(open_dataset(fs, "/shards"));
}

// Nothing is read ahead of it, so that it takes no memory; the others are not lost.
TEST(InPlace, FileThatIsTooLargeIsOneBadSample) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes(std::string(base::kImageBytesMax + 1, 'x')));
  put(fs, "/set/a/2.jpg", base::as_bytes("two"));
  const auto dataset = open(fs, "/set");
  base::ByteVector file;
  EXPECT_EQ(dataset->chunk(0).bytes, 0u);
  EXPECT_EQ(read_file_at(fs, *dataset, dataset->location(0), &file).code(), Code::kTooBig);
  EXPECT_TRUE(read_file_at(fs, *dataset, dataset->location(1), &file).ok());
}

}  // namespace
}  // namespace forebay::store
