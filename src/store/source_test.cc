// What a source is listed as, and what is refused before anything is packed.
#include "store/source.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "io/faulty.h"
#include "store/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FolderSource, KeysAreUniqueAndFreeOfDots) {
  io::MemoryFileSystem fs;
  for (const char* name : {"a.b.jpg", "a.jpg", "a.png", "a_png.jpg", "b%.JPG"}) {
    put(fs, io::join_path("src/c", name), base::as_bytes("x"));
  }
  const auto listing = list_source(fs, "src/");
  ASSERT_TRUE(listing) << listing.error().message();
  std::vector<std::string> keys;
  for (const auto& sample : listing->samples) keys.push_back(sample.key);
  EXPECT_THAT(keys, ElementsAre("c/a%2Eb", "c/a", "c/a_png_2", "c/a_png", "c/b%25"));
}

TEST(Source, ExpandsBraces) {
  EXPECT_THAT(expand_braces("x-{08..10}.tar").value(),
              ElementsAre("x-08.tar", "x-09.tar", "x-10.tar"));
  EXPECT_FALSE(expand_braces("x-{1..99999999999}.tar"));
  EXPECT_FALSE(expand_braces("x-{b..c}.tar"));
}

std::vector<std::string> keys_of(const Listing& listing) {
  std::vector<std::string> keys;
  for (const auto& sample : listing.samples) keys.push_back(sample.key);
  return keys;
}

// Several threads ask for sizes; any of them may be told of a disk that fails.
TEST(FolderSource, ManyFilesAreMeasured) {
  io::MemoryFileSystem fs;
  constexpr int kFiles = 3000;
  for (int i = 0; i < kFiles; ++i) {
    const std::string name = fmt::format("src/{}/{:04}.jpg", i % 2, i);
    put(fs, name, base::as_bytes(std::string(static_cast<size_t>(i), 'x')));
    fs.set_modified(name, i);
  }
  const auto listing = list_source(fs, "src");
  ASSERT_TRUE(listing);
  ASSERT_EQ(listing->samples.size(), static_cast<size_t>(kFiles));
  for (const SourceSample& sample : listing->samples) {
    const int number = std::stoi(sample.key.substr(2));
    EXPECT_EQ(sample.modified_ns, number);
    EXPECT_EQ(sample.files[0].length, static_cast<uint64_t>(number));
  }
  for (const int64_t at : {20, 1500, 2900}) {
    const io::FaultyFileSystem faulty(fs, {.on = io::FaultyFileSystem::Fault::On::kRead,
                                           .at = at,
                                           .for_ever = false,
                                           .code = Code::kIo});
    EXPECT_EQ(base::status_of(list_source(faulty, "src")).code(), Code::kIo);
  }
}

// A bug once: the first two classes gave the same keys.
TEST(FolderSource, ClassesThatLookEscapedKeepTheirOwnKeys) {
  io::MemoryFileSystem fs;
  for (const char* name : {"__a", "%5F_a", "%255F_a", "_a"}) {
    put(fs, io::join_path(io::join_path("src", name), "x.jpg"), base::as_bytes("x"));
  }
  EXPECT_THAT(keys_of(*list_source(fs, "src")),
              ElementsAre("%25255F_a/x", "%255F_a/x", "%5F_a/x", "_a/x"));
}

// A bug once: it failed only when everything had been packed.
TEST(FolderSource, AClassNameThatIsTooLongIsRefusedAtOnce) {
  io::MemoryFileSystem fs;
  const std::string longest(base::kFieldNameBytesMax, 'c');
  put(fs, "src/" + longest + "/x.jpg", base::as_bytes("x"));
  EXPECT_TRUE(list_source(fs, "src"));
  put(fs, "src/" + longest + "d/x.jpg", base::as_bytes("x"));
  const auto refused = list_source(fs, "src");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kTooBig);
  EXPECT_THAT(refused.error().message(), HasSubstr("has 129 bytes, more than 128"));
}

void put_shard(io::MemoryFileSystem& fs, const std::string& path,
               const std::vector<std::string>& names) {
  ByteVector tar;
  for (const auto& name : names) add_member(name, base::as_bytes("x"), &tar);
  append_tar_end(&tar);
  put(fs, path, tar);
}

Result<Listing> list_shard(const std::vector<std::string>& names) {
  io::MemoryFileSystem fs;
  put_shard(fs, "x.tar", names);
  return list_source(fs, "x.tar");
}

TEST(WebDatasetSource, AFieldWithoutANameIsRefused) {
  const auto refused = list_shard({"a.jpg", "a."});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr("ends in a dot"));
}

TEST(WebDatasetSource, SaysWhatSamplesWithoutAnImageHave) {
  const auto refused = list_shard({"a.seg.png", "a.json"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("the first, \"a\": no image: it has .seg.png .json, none of .jpg .jpeg"));
}

TEST(WebDatasetSource, AKeyThatComesTwiceIsRefusedWithBothPlaces) {
  io::MemoryFileSystem fs;
  for (const char* shard : {"set/1.tar", "set/2.tar"}) put_shard(fs, shard, {"a.jpg"});
  const auto refused = list_source(fs, "set");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("set/2.tar: member a.jpg at byte 512"));
  EXPECT_THAT(refused.error().message(), HasSubstr("its key came before, in set/1.tar"));
}

TEST(WebDatasetSource, FoldersBesideShardsAreNamedAsLeftOut) {
  io::MemoryFileSystem fs;
  put_shard(fs, "set/1.tar", {"a.jpg"});
  put(fs, "set/cats/1.jpg", base::as_bytes("x"));
  put(fs, "set/.notes/1.txt", base::as_bytes("x"));
  const auto listing = list_source(fs, "set");
  ASSERT_TRUE(listing);
  ASSERT_EQ(listing->refused.size(), 1u);
  EXPECT_EQ(listing->refused[0].path, "cats");
}

TEST(WebDatasetSource, FieldsThatAreNamedLikeOursStayApart) {
  const auto listing =
      list_shard({"a.jpg", "a.image", "a.image_file", "a.cls", "a.class", "a.profile"});
  ASSERT_TRUE(listing) << listing.error().message();
  std::vector<std::string> names;
  for (const Field& field : listing->schema.fields) names.push_back(field.name);
  EXPECT_THAT(names, ElementsAre("image", "class", "class_file", "image_file", "image_file_file",
                                 "profile"));
}

TEST(Source, AFileThatChangesWhileItIsPackedIsNoticed) {
  io::MemoryFileSystem fs;
  put(fs, "src/c/a.jpg", base::as_bytes("abc"));
  const auto listing = list_source(fs, "src").value();
  const auto read = [&] {
    return base::status_of(
        read_source_file(fs, listing, listing.samples[0], listing.samples[0].files[0]));
  };
  EXPECT_TRUE(read().ok());
  const auto expect_changed = [&](const char* how) {
    const Status status = read();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_THAT(status.message(),
                HasSubstr("src/c/a.jpg: the source changed while it was packed: "));
    EXPECT_THAT(status.message(), HasSubstr(how));
  };
  // A bug once: other content of the same size went through.
  fs.set_modified("src/c/a.jpg", 1);
  expect_changed("written to");
  fs.set_modified("src/c/a.jpg", 0);
  fs.content("src/c/a.jpg").push_back('d');
  expect_changed("3 bytes when listed, 4 now");
  ASSERT_TRUE(fs.remove("src/c/a.jpg").ok());
  expect_changed("it is gone");
}

TEST(Source, AShardThatWasWrittenToIsNoticed) {
  io::MemoryFileSystem fs;
  put_shard(fs, "x.tar", {"a.jpg"});
  const auto listing = list_source(fs, "x.tar").value();
  fs.set_modified("x.tar", 1);
  const auto read = read_source_file(fs, listing, listing.samples[0], listing.samples[0].files[0]);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kInvalid);
}

TEST(Source, SaysWhatToDoAboutAFileThatCannotBeRead) {
  io::MemoryFileSystem fs;
  put(fs, "src/c/a.jpg", base::as_bytes("abc"));
  const auto listing = list_source(fs, "src").value();
  using Fault = io::FaultyFileSystem::Fault;
  const io::FaultyFileSystem closed(fs, {.on = Fault::On::kRead, .at = 1, .code = Code::kIo});
  const auto read =
      read_source_file(closed, listing, listing.samples[0], listing.samples[0].files[0]);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kIo);
  EXPECT_THAT(read.error().message(), HasSubstr("make it readable (chmod), or leave it out"));
}

}  // namespace
}  // namespace forebay::store
