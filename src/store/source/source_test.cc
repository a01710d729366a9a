// The listings of sources, and the errors that come before anything is packed.
#include "store/source/source.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "io/testing/far_origin.h"
#include "io/testing/faulty.h"
#include "store/source/file_list.h"
#include "store/source/source_reader.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

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

// Several threads ask for sizes, and a failing disk may answer any of them.
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

TEST(Source, OnlyFilesOfThisMachineCanBeMadeReadable) {
  io::MemoryFileSystem fs;
  put(fs, "src/a/1.jpg", base::as_bytes("x"));
  const io::FaultyFileSystem faulty(
      fs, {.on = io::FaultyFileSystem::Fault::On::kRead, .at = 1, .code = Code::kIo});
  EXPECT_THAT(base::status_of(list_source(faulty, "src")).message(), HasSubstr("chmod"));
  const Status error = base::status_of(list_source(io::FarOrigin(faulty), "src"));
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_THAT(error.message(), Not(HasSubstr("chmod")));
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

// A bug once: pack failed only after everything had been packed.
TEST(FolderSource, AClassNameThatIsTooLongIsRefusedAtOnce) {
  io::MemoryFileSystem fs;
  const std::string longest(base::kClassNameBytesMax, 'c');
  put(fs, "src/" + longest + "/x.jpg", base::as_bytes("x"));
  EXPECT_TRUE(list_source(fs, "src"));
  put(fs, "src/" + longest + "d/x.jpg", base::as_bytes("x"));
  const auto refused = list_source(fs, "src");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kTooBig);
  EXPECT_THAT(refused.error().message(), HasSubstr("has 256 bytes, more than 255"));
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
  EXPECT_THAT(refused.error().message(), HasSubstr("a sample's name ends at the first dot"));
  const auto without = list_shard({"a.json"});
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message(), Not(HasSubstr("dot")));
}

TEST(WebDatasetSource, AKeyThatComesTwiceInAShardIsRefusedWithItsPlace) {
  const auto refused = list_shard({"a.jpg", "b.jpg", "a.png"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("x.tar: member a.png at byte 2560"));
  EXPECT_THAT(refused.error().message(), HasSubstr("its key came before in this shard"));
}

// A bug once: such shards were refused, although WebDataset reads them.
TEST(WebDatasetSource, KeysThatBeginAnewInEachShardAreNamedByShardAndKey) {
  io::MemoryFileSystem fs;
  put_shard(fs, "set/x.v1-0.tar", {"0.jpg", "0.cls", "only.jpg", "only.cls"});
  put_shard(fs, "set/__y__.tar", {"deep/er/0.jpg", "0.jpg", "0.cls"});
  const auto listing = list_source(fs, "set");
  ASSERT_TRUE(listing) << listing.error().message();
  EXPECT_THAT(keys_of(*listing),
              ElementsAre("%5F_y__/deep/er/0", "%5F_y__/0", "x.v1-0/0", "x.v1-0/only"));
  EXPECT_EQ(listing->samples[0].source_path, "%5F_y__/deep/er/0.jpg");
  // If no key is in several shards, keys stay unchanged.
  put_shard(fs, "other/1.tar", {"0.jpg"});
  put_shard(fs, "other/2.tar", {"1.jpg"});
  EXPECT_THAT(keys_of(*list_source(fs, "other")), ElementsAre("0", "1"));
  // A repeated key without an image changes nothing either.
  put_shard(fs, "other/3.tar", {"about.json", "2.jpg"});
  put_shard(fs, "other/4.tar", {"about.json", "3.jpg"});
  EXPECT_THAT(keys_of(*list_source(fs, "other")), ElementsAre("0", "1", "2", "3"));
}

TEST(WebDatasetSource, ShardsInSeveralFoldersAreNamedWithTheirFolders) {
  io::MemoryFileSystem fs;
  for (const char* shard : {"set/part0/x.tar", "set/part1/x.tar"}) put_shard(fs, shard, {"0.jpg"});
  EXPECT_THAT(keys_of(*list_source(fs, "set/part{0..1}/x.tar")),
              ElementsAre("part0/x/0", "part1/x/0"));
}

TEST(WebDatasetSource, ShardsWhoseNamesCannotTellTheirSamplesApartAreRefused) {
  io::MemoryFileSystem fs;
  put_shard(fs, "set/a.tar", {"0.jpg"});
  put_shard(fs, "set/a.TAR", {"0.jpg"});
  EXPECT_THAT(keys_of(*list_source(fs, "set")), ElementsAre("a.TAR/0", "a/0"));
  put_shard(fs, "set/a.TAR.tar", {"0.jpg"});
  EXPECT_EQ(list_source(fs, "set").error().code(), Code::kUnsupported);
  const std::string longest(base::kKeyBytesMax - 2, 'k');
  put_shard(fs, "long/a.tar", {longest + ".jpg"});
  put_shard(fs, "long/b.tar", {longest + ".jpg"});
  EXPECT_THAT(keys_of(*list_source(fs, "long")), ElementsAre("a/" + longest, "b/" + longest));
  put_shard(fs, "long/c.tar", {longest + "k.jpg"});
  EXPECT_EQ(list_source(fs, "long").error().code(), Code::kTooBig);
}

// Returns the class and its number for each sample, or the error of a refused source.
std::vector<std::string> labels_of(const std::vector<std::string>& names) {
  const auto listing = list_shard(names);
  if (!listing) return {listing.error().message()};
  std::vector<std::string> out;
  for (const SourceSample& sample : listing->samples) {
    const auto number = static_cast<size_t>(sample.label);
    out.push_back(fmt::format("{} {}", sample.key,
                              sample.label < 0 ? "-" : listing->schema.classes.at(number)));
  }
  return out;
}

// A bug once: such a tar gave no labels, silently.
TEST(WebDatasetSource, FoldersInsideShardsAreClasses) {
  EXPECT_THAT(labels_of({"dog/1.jpg", "cat/1.jpg", "cat/deep/2.jpg"}),
              ElementsAre("dog/1 dog", "cat/1 cat", "cat/deep/2 cat"));
  const auto listing = list_shard({"b/1.jpg", "a/1.jpg", "B/1.jpg"}).value();
  EXPECT_THAT(listing.schema.classes, ElementsAre("B", "a", "b"));
  EXPECT_EQ(listing.schema.fields.at(1), (Field{"class", FieldKind::kClass}));
  // Folders that all samples share are not classes.
  EXPECT_THAT(labels_of({"./set/train/dog/1.jpg", "./set/train/dot/1.jpg"}),
              ElementsAre("set/train/dog/1 dog", "set/train/dot/1 dot"));
  EXPECT_THAT(labels_of({"set/1.jpg", "set/2.jpg"}), ElementsAre("set/1 -", "set/2 -"));
  // A sample outside all folders, or a single .cls file, means that folders are no classes.
  EXPECT_THAT(labels_of({"dog/1.jpg", "cat/1.jpg", "1.jpg"}),
              ElementsAre("dog/1 -", "cat/1 -", "1 -"));
  EXPECT_THAT(labels_of({"set/dog/1.jpg", "set/1.jpg"}), ElementsAre("set/dog/1 -", "set/1 -"));
  EXPECT_THAT(labels_of({"dog/1.jpg", "cat/1.jpg", "cat/1.cls"}),
              ElementsAre("dog/1 -", "cat/1 -"));
  const std::string longest(base::kClassNameBytesMax, 'c');
  EXPECT_THAT(labels_of({"a/1.jpg", longest + "/1.jpg"}),
              ElementsAre("a/1 a", longest + "/1 " + longest));
  EXPECT_THAT(labels_of({"a/1.jpg", longest + "c/1.jpg"}), ElementsAre("a/1 -", longest + "c/1 -"));
}

TEST(WebDatasetSource, FoldersBesideShardsAreNamedAsLeftOut) {
  io::MemoryFileSystem fs;
  put_shard(fs, "set/1.tar", {"a.jpg"});
  put(fs, "set/cats/1.jpg", base::as_bytes("x"));
  put(fs, "set/.notes/1.txt", base::as_bytes("x"));
  const auto listing = list_source(fs, "set");
  ASSERT_TRUE(listing);
  ASSERT_EQ(listing->left_out.size(), 1u);
  EXPECT_EQ(listing->left_out[0].path, "cats");
  ASSERT_EQ(listing->hidden.size(), 1u);
  EXPECT_EQ(listing->hidden[0].path, ".notes");
}

// The remarks as texts.
std::vector<std::string> texts(const std::vector<Remark>& remarks) {
  std::vector<std::string> out;
  for (const Remark& remark : remarks) out.push_back(remark.path + ": " + remark.reason);
  return out;
}

TEST(WebDatasetSource, WhatLiesBesideShardsIsCountedByReason) {
  io::MemoryFileSystem fs;
  put_shard(fs, "set/1.tar", {"a.jpg"});
  for (const char* name :
       {"2.tar.gz", "3.tar.gz", "4.tar.zst", "x.jpg", "y.png", "._1.tar", "README"})
    put(fs, fmt::format("set/{}", name), base::as_bytes("x"));
  const auto listing = list_source(fs, "set");
  ASSERT_TRUE(listing) << listing.error().message();
  EXPECT_EQ(listing->samples.size(), 1u) << "a hidden file is a shard";
  EXPECT_THAT(
      texts(listing->left_out),
      ElementsAre("2.tar.gz: a compressed archive (.tar.gz); unpack or decompress it first "
                  "(2 in all)",
                  "4.tar.zst: a compressed archive (.tar.zst); unpack or decompress it first",
                  "x.jpg: an image beside .tar files; only the .tar files are read (2 in all)"));
  EXPECT_THAT(texts(listing->hidden), ElementsAre(StartsWith("._1.tar: a hidden file")));
}

TEST(FolderSource, HiddenFoldersAreNoClassesAndWhatIsLeftOutIsCounted) {
  io::MemoryFileSystem fs;
  for (const char* name : {"b/1.jpg", "c/1.jpg", "c/.thumbs/1.jpg", "c/._1.jpg", "d/1.heic",
                           "d/2.heic", "e/1.jfif", ".ipynb_checkpoints/1.jpg", "@eaDir/1.jpg",
                           "forebay-cache/1.jpg", "1.jpg", "2.jpg", "notes.txt"})
    put(fs, fmt::format("set/{}", name), base::as_bytes("x"));
  const auto listing = list_source(fs, "set");
  ASSERT_TRUE(listing) << listing.error().message();
  EXPECT_THAT(listing->schema.classes, ElementsAre("b", "c", "d", "e"));
  ASSERT_EQ(listing->samples.size(), 2u);
  EXPECT_EQ(listing->samples[1].source_path, "c/1.jpg");
  EXPECT_THAT(
      texts(listing->left_out),
      ElementsAre(
          HasSubstr("d: a folder without an image; it is a class without samples (2 in all)"),
          HasSubstr("1.jpg: an image beside folders"),
          HasSubstr("d/1.heic: no image by its suffix .heic"),
          HasSubstr("e/1.jfif: no image by its suffix .jfif")));
  EXPECT_THAT(listing->left_out[1].reason, HasSubstr("(2 in all)"));
  EXPECT_THAT(listing->left_out[2].reason, HasSubstr("(2 in all)"));
  EXPECT_THAT(
      texts(listing->hidden),
      ElementsAre(
          HasSubstr("c/._1.jpg: a hidden file"),
          HasSubstr(".ipynb_checkpoints: a hidden folder, or another program's (3 in all)")));
}

// A bug once: 45 images and one in a hidden folder were a dataset of one sample.
TEST(FolderSource, ImagesBesideHiddenFoldersAloneAreTheSamples) {
  io::MemoryFileSystem fs;
  for (const char* name : {"1.jpg", "2.jpg", ".ipynb_checkpoints/1.jpg"})
    put(fs, fmt::format("set/{}", name), base::as_bytes("x"));
  const auto listing = list_source(fs, "set");
  ASSERT_TRUE(listing) << listing.error().message();
  EXPECT_EQ(listing->samples.size(), 2u);
  EXPECT_THAT(listing->left_out, IsEmpty());
  EXPECT_THAT(texts(listing->hidden),
              ElementsAre(StartsWith(".ipynb_checkpoints: a hidden folder")));
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

// The content of the first sample's only file.
Result<base::ByteVector> read_first(const io::Origin& origin, const Listing& listing) {
  base::Crew crew;
  const SourceSample* sample = listing.samples.data();
  SourceReader reader(crew, origin, listing, [&] { return std::exchange(sample, nullptr); });
  return std::move(reader.take().at(0));
}

TEST(Source, AFileThatChangesWhileItIsPackedIsNoticed) {
  io::MemoryFileSystem fs;
  put(fs, "src/c/a.jpg", base::as_bytes("abc"));
  const auto listing = list_source(fs, "src").value();
  const auto read = [&] { return base::status_of(read_first(fs, listing)); };
  EXPECT_TRUE(read().ok());
  const auto expect_changed = [&](const char* how) {
    const Status status = read();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_THAT(status.message(),
                HasSubstr("src/c/a.jpg: the source changed while it was packed: "));
    EXPECT_THAT(status.message(), HasSubstr(how));
  };
  // A bug once: other content of the same size was not noticed.
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
  const auto read = read_first(fs, listing);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kInvalid);
}

TEST(Source, SaysWhatToDoAboutAFileThatCannotBeRead) {
  io::MemoryFileSystem fs;
  put(fs, "src/c/a.jpg", base::as_bytes("abc"));
  const auto listing = list_source(fs, "src").value();
  using Fault = io::FaultyFileSystem::Fault;
  const io::FaultyFileSystem closed(fs, {.on = Fault::On::kRead, .at = 0, .code = Code::kIo});
  const auto read = read_first(closed, listing);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kIo);
  EXPECT_THAT(read.error().message(), HasSubstr("make it readable (chmod), or leave it out"));
}

std::vector<int64_t> numbers_of(const Listing& listing) {
  std::vector<int64_t> labels;
  for (const auto& sample : listing.samples) labels.push_back(sample.label);
  return labels;
}

TEST(Shards, AreClassesIfTheirImagesHaveTheirNames) {
  io::MemoryFileSystem fs;
  put_shard(fs, "in/n02.tar", {"n02_1.JPEG", "n02_2.JPEG"});
  put_shard(fs, "in/n01.tar", {"n01_7.JPEG"});
  const auto listing = list_source(fs, "in");
  ASSERT_TRUE(listing);
  EXPECT_THAT(listing->schema.classes, ElementsAre("n01", "n02"));
  EXPECT_THAT(numbers_of(*listing), ElementsAre(0, 1, 1));
  EXPECT_TRUE(listing->has_classes_of_shards);

  put_shard(fs, "in/n03.tar", {"n03.JPEG"});
  EXPECT_THAT(list_source(fs, "in")->schema.classes, ElementsAre());
  put_shard(fs, "in/n03.tar", {"n03_1.JPEG", "n03_1.cls"});
  EXPECT_FALSE(list_source(fs, "in")->has_classes_of_shards) << "a .cls file counts alone";
  EXPECT_THAT(numbers_of(*list_source(fs, "in/n01.tar")), ElementsAre(-1));
}

TEST(FileList, IsTheFilesInTheirOrder) {
  io::MemoryFileSystem fs;
  for (const char* path : {"/a/b/x.jpg", "/a/b/x.png", "/a/c.2/y.1.JPG"}) {
    put(fs, path, base::as_bytes(path));
  }
  const auto listing = list_files(fs, {"/a/c.2/y.1.JPG", "/a/b/x.png", "/a/b/x.jpg", "/a/b/x.png"});
  ASSERT_TRUE(listing) << listing.error().message();
  EXPECT_EQ(listing->root, "/a");
  EXPECT_THAT(keys_of(*listing), ElementsAre("c.2/y%2E1", "b/x", "b/x_jpg", "b/x"));
  EXPECT_EQ(listing->samples[0].source_path, "c.2/y.1.JPG");
  EXPECT_EQ(listing->samples[0].files[0].length, std::string("/a/c.2/y.1.JPG").size());
  EXPECT_EQ(list_files(fs, {"/a/b/x.jpg"})->root, "/a/b");
  EXPECT_EQ(list_files(fs, {}).error().code(), Code::kInvalid);
  const auto missing = list_files(fs, {"/a/b/x.jpg", "/a/no.jpg", "/b/no.jpg"});
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("2 of 3 files do not exist, such as /a/no.jpg"));
}

}  // namespace
}  // namespace forebay::store
