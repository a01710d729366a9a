// A pack that is interrupted at any point goes on to the same bytes, and touches nothing else.
#include "store/pack/pack_job.h"

#include <gmock/gmock.h>

#include <thread>

#include "io/testing/far_origin.h"
#include "io/testing/faulty.h"
#include "io/testing/object_store.h"
#include "store/format/snapshot.h"
#include "store/pack/journal.h"
#include "store/pack/pack.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using testing::HasSubstr;

// The disk fills at every write in turn; a power loss follows; the next run goes on.
TEST(Pack, GoesOnAfterAFaultAtEveryWrite) {
  io::MemoryFileSystem clean;
  make_source(clean, 12);
  ASSERT_TRUE(pack(clean, "src", "out", small_chunks()));
  const auto expected = contents(clean, "out");
  for (int64_t at = 0;; ++at) {
    io::MemoryFileSystem fs;
    make_source(fs, 12);
    io::FaultyFileSystem faulty(fs, {.at = at});
    const auto broken = pack(faulty, "src", "out", small_chunks());
    if (broken) {
      ASSERT_GT(at, 20);
      break;
    }
    EXPECT_EQ(broken.error().code(), Code::kNoSpace) << broken.error().message();
    // The first operations make the folder and take the lock.
    if (at > 3) {
      EXPECT_THAT(broken.error().message(), HasSubstr("run the same command again to go on")) << at;
    }
    // A different number of bytes after the last sync is torn off each time.
    fs.power_loss(static_cast<uint64_t>(at) * 37 % 300);
    const auto report = pack(fs, "src", "out", small_chunks(2));
    ASSERT_TRUE(report) << at << ": " << report.error().message();
    EXPECT_EQ(contents(fs, "out"), expected) << at;
    EXPECT_FALSE(fs.stat("out/journal")) << at;
  }
}

TEST(Pack, SaysHowToGoOn) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FaultyFileSystem faulty(fs, {.at = 30});
  const auto broken = pack(faulty, "src", "out", small_chunks());
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message(), HasSubstr("run the same command again to go on"));
  EXPECT_THAT(broken.error().message(), HasSubstr(" more); "));
}

TEST(Pack, RefusesToGoOnWithAChangedSource) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FaultyFileSystem faulty(fs, {.at = 30});
  ASSERT_FALSE(pack(faulty, "src", "out", small_chunks()));
  put(fs, "src/cat/000.jpg", test_jpeg(64, 64, 99));
  const auto changed = pack(fs, "src", "out", small_chunks());
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), Code::kExists);
  EXPECT_THAT(changed.error().message(), HasSubstr("cat/000.jpg"));
}

// A bug once: a folder with chunks and without HEAD was taken for an abandoned pack and cleaned.
TEST(Pack, ADatasetThatLostItsHeadIsLeftAlone) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  ASSERT_TRUE(fs.remove("out/HEAD").ok());
  const auto before = contents(fs, "out");
  const auto refused = pack(fs, "src", "out", small_chunks());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("out/chunks is not empty"));
  EXPECT_EQ(contents(fs, "out"), before);
}

// A bug once: `forebay pack X/chunks X` deleted the shards that it was to pack.
TEST(Pack, ShardsInsideTheDatasetAreNeverTouched) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  add_member("a.jpg", test_jpeg(40, 30, 1), &tar);
  append_tar_end(&tar);
  for (const char* shard : {"x/chunks/a.tar", "y/b.tar"}) put(fs, shard, tar);
  for (const auto& [source, dataset] :
       {std::pair("x/chunks", "x"), std::pair("x/chunks/a.tar", "x"), std::pair("y", "y")}) {
    const auto refused = pack(fs, source, dataset, small_chunks());
    ASSERT_FALSE(refused) << source;
    EXPECT_EQ(refused.error().code(), Code::kInvalid);
    EXPECT_THAT(refused.error().message(), HasSubstr("is inside the dataset"));
  }
  // The source is elsewhere, but the folder has other tars where the chunks would be.
  const auto refused = pack(fs, "y", "x", small_chunks());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_EQ(*fs.read_whole("x/chunks/a.tar", 1u << 20), tar);
  EXPECT_EQ(*fs.read_whole("y/b.tar", 1u << 20), tar);
}

// A bug once: a stop took effect only after the timeout of a server that did not answer.
TEST(Pack, StopsReadsThatAreHeld) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FarOrigin far(fs);
  far.hold(".jpg");
  std::atomic<bool> stop = false;
  std::jthread stopper([&] {
    far.wait_for_reader();
    stop = true;
  });
  PackOptions options = small_chunks(2);
  options.stop = &stop;
  const auto stopped = pack(far, "src", fs, "out", options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), Code::kCancelled);
  EXPECT_THAT(stopped.error().message(), HasSubstr("run the same command again to go on"));
}

// A bug once: a source below the target's name was read with the target's keys.
TEST(Pack, SourceAndTargetMayHaveTheSameNameInDifferentStores) {
  io::MemoryFileSystem disk;
  make_source(disk);
  ASSERT_TRUE(pack(disk, "src", "out", small_chunks()));
  io::ObjectStore from;
  make_source(from);
  for (const char* target : {"src", "src/out"}) {
    io::ObjectStore to;
    const auto report = pack(from, "src", to, target, small_chunks());
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(contents(to, target).size(), contents(disk, "out").size());
    EXPECT_THAT(damages(to, target), testing::IsEmpty());
  }
  EXPECT_EQ(contents(from, "src").size(), 24u);
}

TEST(Pack, CleansUpOnlyWhatItMade) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FaultyFileSystem faulty(fs, {.at = 30});
  ASSERT_FALSE(pack(faulty, "src", "out", small_chunks()));
  const std::string unknown = chunk_path("out", base::sha256({}));
  const std::string unfinished = "out/chunks/.forebay-0123456789abcdef.tmp";
  for (const std::string& path :
       {std::string("out/chunks/mine.tar"), std::string("out/chunks/1a.tmp"),
        std::string("out/chunks/.tmp"), unknown, unfinished}) {
    put(fs, path, base::as_bytes("x"));
  }
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  EXPECT_TRUE(fs.stat("out/chunks/mine.tar"));
  EXPECT_TRUE(fs.stat("out/chunks/1a.tmp"));
  EXPECT_TRUE(fs.stat("out/chunks/.tmp"));
  EXPECT_FALSE(fs.stat(unfinished));
  EXPECT_FALSE(fs.stat(unknown));
}

// A bug once: JSON of unexpected types threw, and lengths were not checked.
TEST(Pack, AHostileJournalIsAnErrorWithItsPath) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FaultyFileSystem faulty(fs, {.at = 30});
  ASSERT_FALSE(pack(faulty, "src", "out", small_chunks()));
  const std::string hash(64, '0');
  const auto with_line = [&](const std::string& json) {
    const std::string line = fmt::format("{:08x} {}\n", base::crc32c(base::as_bytes(json)), json);
    put(fs, "out/journal/9", base::as_bytes(line));
    const auto done = pack(fs, "src", "out", small_chunks());
    if (done) return std::string("accepted");
    EXPECT_EQ(done.error().code(), Code::kCorrupt) << json;
    EXPECT_THAT(done.error().message(), HasSubstr("out/journal"));
    return done.error().message();
  };
  const std::string stats = R"("stats": {"samples": 1, "source_bytes": 1, "rewritten": 0, )"
                            R"("jpeg_bytes_in": 0, "jpeg_bytes_out": 0, "kept": {}, )"
                            R"("kept_jpegs": [], "refused": []}})";
  const auto record = [&](const std::string& id, const char* bytes, const char* index) {
    return fmt::format(R"({{"chunk": 0, "id": {}, "bytes": {}, "index_bytes": {}, {})", id, bytes,
                       index, stats);
  };
  const std::string id = '"' + hash + '"';
  with_line(record("7", "0", "0"));
  with_line(record("null", "0", "0"));
  with_line(record(id, "-1", "0"));
  with_line(record(id, "1e300", "0"));
  with_line(record(id, "1000", "1001"));
  with_line(record(id, "18446744073709551615", "18446744073709551615"));
  with_line(R"({"chunk": 0, "id": "x", "bytes": 0, "index_bytes": 0})");
  with_line(R"({"chunk": 99999999})");
  ASSERT_TRUE(fs.remove("out/journal/9").ok());
  EXPECT_TRUE(pack(fs, "src", "out", small_chunks()));
}

TEST(Pack, SaysThatAnEarlierVersionBeganIt) {
  io::MemoryFileSystem fs;
  make_source(fs, 3);
  put(fs, "out/journal", base::as_bytes("0123abcd {}\n"));
  const auto refused = pack(fs, "src", "out", small_chunks());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnsupported);
  EXPECT_THAT(refused.error().message(), HasSubstr("earlier version"));
  EXPECT_TRUE(fs.stat("out/journal"));
}

TEST(Pack, OtherFilesInTheJournalsFolderAreLeftAlone) {
  io::MemoryFileSystem fs;
  make_source(fs, 3);
  put(fs, "out/journal/mine", base::as_bytes("mine"));
  const auto refused = pack(fs, "src", "out", small_chunks());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("holds other files (journal/mine)"));
  ASSERT_TRUE(fs.remove("out/journal/mine").ok());
  put(fs, "out/journal/.forebay-0123456789abcdef.tmp", {});
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  EXPECT_FALSE(fs.stat("out/journal"));
}

TEST(Pack, ACopyThatIsNotCompleteIsNamed) {
  io::MemoryFileSystem fs;
  make_source(fs, 3);
  put(fs, copy_mark_path("out"), base::as_bytes("forebay copy 0\n"));
  put(fs, "out/chunks/mine", base::as_bytes("mine"));
  const auto refused = pack(fs, "src", "out", small_chunks());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("a copy that is not complete"));
}

TEST(Pack, StopsOnRequestAndGoesOn) {
  io::MemoryFileSystem fs;
  make_source(fs, 12);
  std::atomic<bool> stop = true;
  PackOptions options = small_chunks();
  options.stop = &stop;
  const auto stopped = pack(fs, "src", "out", options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), Code::kCancelled);
  EXPECT_TRUE(pack(fs, "src", "out", small_chunks()));
}

}  // namespace
}  // namespace forebay::store
