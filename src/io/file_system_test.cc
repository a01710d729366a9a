// One test body for the real file system and the one in memory.
#include "io/file_system.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/random.h"
#include "io/disk.h"
#include "io/large_buffer.h"
#include "io/testing/faulty.h"
#include "io/testing/memory.h"

namespace forebay::io {
namespace {

using base::as_bytes;
using base::as_text;
using base::Code;

class FileSystemTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / fmt::format("forebay_io_test_{}", ::getpid());
    if (std::string_view(GetParam()) == "memory") fs_ = &memory_;
    ASSERT_TRUE(fs_->make_dirs(root_).ok());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string path(std::string_view name) const { return join_path(root_, name); }

  MemoryFileSystem memory_;
  DiskFileSystem* fs_ = &static_cast<DiskFileSystem&>(posix_file_system());
  std::string root_;
};
INSTANTIATE_TEST_SUITE_P(All, FileSystemTest, testing::Values("posix", "memory"));

TEST_P(FileSystemTest, ReadsWhatWasWritten) {
  ASSERT_TRUE(fs_->put(path("a"), as_bytes("hello")).ok());
  EXPECT_EQ(as_text(*fs_->read_whole(path("a"), 5)), "hello");
  EXPECT_EQ(fs_->read_whole(path("a"), 4).error().code(), Code::kTooBig);
  EXPECT_EQ(fs_->stat(path("a"))->size, 5u);
  EXPECT_EQ(fs_->list(root_)->size(), 1u);
  ASSERT_TRUE(fs_->put(path("a"), as_bytes("new")).ok());
  EXPECT_EQ(as_text(*fs_->read_whole(path("a"), 5)), "new");
}

TEST_P(FileSystemTest, SaysThatAFileEndsTooEarly) {
  ASSERT_TRUE(fs_->put(path("a"), as_bytes("hello")).ok());
  const auto file = fs_->open(path("a")).value();
  base::ByteVector out(4);
  EXPECT_TRUE(file->read(1, out).ok());
  EXPECT_EQ(as_text(out), "ello");
  const Status status = file->read(2, out);
  EXPECT_EQ(status.code(), Code::kTruncated);
  EXPECT_NE(status.message().find("truncated"), std::string::npos);
}

TEST_P(FileSystemTest, ReadsAroundThePageCacheFromAnywhereToAnywhere) {
  constexpr size_t kBytes = 3 * kDirectAlignment + 700;
  base::ByteVector content(kBytes);
  base::Random random(1, base::Purpose::kTest);
  for (uint8_t& byte : content) byte = static_cast<uint8_t>(random.next_u32());
  ASSERT_TRUE(fs_->put(path("a"), content).ok());
  const auto file = fs_->open(path("a"), {.cached = false}).value();
  EXPECT_EQ(file->identity().size, kBytes);
  const LargeBuffer buffer(kBytes + 2 * kDirectAlignment);
  for (int i = 0; i < 3000; ++i) {
    // Half of the reads go to the same place in a block of memory as in a block of the file.
    const auto offset = static_cast<size_t>(random.below(kBytes));
    const size_t length = random.below(kBytes - offset + 1);
    const size_t at = i % 2 == 0 ? offset % kDirectAlignment : random.below(kDirectAlignment);
    const base::MutableBytes out(buffer.data() + at, length + 1);
    std::ranges::fill(out, uint8_t{0xA5});
    ASSERT_TRUE(file->read(offset, out.first(length)).ok());
    ASSERT_TRUE(std::equal(out.begin(), out.end() - 1, content.data() + offset));
    ASSERT_EQ(out.back(), 0xA5);
    const Status status = file->read(offset, {buffer.data() + at, kBytes - offset + 1});
    ASSERT_EQ(status.code(), Code::kTruncated);
    ASSERT_NE(status.message().find("truncated"), std::string::npos);
  }
  EXPECT_EQ(base::status_of(fs_->open(path("none"), {.cached = false})).code(), Code::kNotFound);
}

TEST_P(FileSystemTest, AppendsToAFileThatIsThereOrNot) {
  for (const char* line : {"one\n", "two\n"}) {
    const auto file = fs_->append_to(path("log")).value();
    ASSERT_TRUE(file->append(as_bytes(line)).ok());
    ASSERT_TRUE(file->close().ok());
  }
  EXPECT_EQ(as_text(*fs_->read_whole(path("log"), 100)), "one\ntwo\n");
}

TEST_P(FileSystemTest, PutsPiecesAndMakesFolders) {
  std::vector<base::ByteVector> parts;
  base::ByteVector whole;
  base::Random random(1, base::Purpose::kTest);
  // Empty, small and large pieces.
  for (size_t i = 0; i < 1000; ++i) {
    const uint64_t length = i % 200 == 7 ? (1u << 20) + random.below(1u << 20) : random.below(3000);
    parts.emplace_back(i % 10 == 0 ? 0 : length, static_cast<uint8_t>(i));
    whole.insert(whole.end(), parts.back().begin(), parts.back().end());
  }
  const std::vector<Bytes> pieces(parts.begin(), parts.end());
  for (const bool durable : {true, false}) {
    const std::string file = path(fmt::format("new{}/folders/file", durable));
    ASSERT_TRUE(fs_->put_pieces(file, pieces, {.durable = durable}).ok());
    EXPECT_EQ(*fs_->read_whole(file, 1u << 24), whole);
    EXPECT_EQ(fs_->list(parent_path(file))->size(), 1u);
  }
  ASSERT_TRUE(fs_->put_pieces(path("empty"), {}).ok());
  EXPECT_EQ(fs_->stat(path("empty"))->size, 0u);
  ASSERT_TRUE(fs_->put(path("file"), {}).ok());
  EXPECT_EQ(fs_->make_dirs(path("file")).code(), Code::kExists);
}

TEST_P(FileSystemTest, PutsOnConditions) {
  const PutOptions if_absent{.when = PutIf::kAbsent};
  ASSERT_TRUE(fs_->put(path("a"), as_bytes("one"), if_absent).ok());
  const Status there = fs_->put(path("a"), as_bytes("two"), if_absent);
  EXPECT_EQ(there.code(), Code::kExists);
  EXPECT_NE(there.message().find(path("a")), std::string::npos);
  const PutOptions if_one{.when = PutIf::kUnchanged,
                          .known = fs_->open(path("a")).value()->identity()};
  ASSERT_TRUE(fs_->put(path("a"), as_bytes("three"), if_one).ok());
  EXPECT_EQ(fs_->put(path("a"), as_bytes("four"), if_one).code(), Code::kChanged);
  EXPECT_EQ(as_text(*fs_->read_whole(path("a"), 10)), "three");
  ASSERT_TRUE(fs_->remove(path("a")).ok());
  EXPECT_EQ(fs_->put(path("a"), as_bytes("five"), if_one).code(), Code::kChanged);
  EXPECT_FALSE(*exists(*fs_, path("a")));
  EXPECT_EQ(fs_->list(root_)->size(), 0u);
}

TEST_P(FileSystemTest, RemovesFilesAndEmptyFolders) {
  ASSERT_TRUE(fs_->put(path("d/a"), {}).ok());
  EXPECT_FALSE(fs_->remove(path("d")).ok());
  ASSERT_TRUE(fs_->remove(path("d/a")).ok());
  ASSERT_TRUE(fs_->remove(path("d")).ok());
  EXPECT_EQ(fs_->stat(path("d")).error().code(), Code::kNotFound);
  EXPECT_EQ(fs_->remove(path("d")).code(), Code::kNotFound);
  EXPECT_EQ(list_if_there(*fs_, path("d"))->size(), 0u);
}

TEST_P(FileSystemTest, ListsByName) {
  ASSERT_TRUE(fs_->make_dirs(path("d/sub")).ok());
  ASSERT_TRUE(fs_->make_dirs(path("d/sub")).ok());
  for (const char* name : {"d/b", "d/a", "d/\xc3\xa9"}) {
    ASSERT_TRUE(fs_->put(path(name), {}).ok());
  }
  const auto entries = fs_->list(path("d")).value();
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(entries[2].name, "sub");
  EXPECT_EQ(entries[2].type, FileType::kDirectory);
  EXPECT_EQ(entries[3].name, "\xc3\xa9");
}

TEST_P(FileSystemTest, NamesThePathInErrors) {
  EXPECT_EQ(fs_->open(path("none")).error().code(), Code::kNotFound);
  EXPECT_NE(fs_->open(path("none")).error().message().find(path("none")), std::string::npos);
  EXPECT_EQ(fs_->create(path("no/such")).error().code(), Code::kNotFound);
  EXPECT_FALSE(fs_->remove(path("none")).ok());
}

TEST_P(FileSystemTest, LocksOnce) {
  {
    const auto held = fs_->lock(path("LOCK")).value();
    EXPECT_EQ(fs_->lock(path("LOCK")).error().code(), Code::kBusy);
  }
  EXPECT_TRUE(fs_->lock(path("LOCK")));
  EXPECT_TRUE(fs_->lock(path("new/folder/LOCK")));
}

// A file may be opened just before its holder removes it. A lock on it would exclude nobody.
TEST_P(FileSystemTest, LocksOnceWhereHoldersRemoveTheFile) {
  std::atomic<int> holders = 0;
  std::atomic<bool> were_two = false;
  std::atomic<int> taken = 0;
  const auto work = [&] {
    for (int i = 0; i < 5'000; ++i) {
      const auto held = fs_->lock(path("LOCK"));
      if (!held) continue;
      if (++holders > 1) were_two = true;
      ++taken;
      std::this_thread::yield();
      --holders;
      static_cast<void>(fs_->remove(path("LOCK")).ok());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(taken, 0);
  EXPECT_FALSE(were_two);
}

// A bug once: opening a FIFO waited for a writer.
TEST(PosixFileSystem, OpensRegularFilesOnly) {
  const std::string folder =
      std::filesystem::temp_directory_path() / fmt::format("forebay_io_fifo_{}", ::getpid());
  FileSystem& fs = posix_file_system();
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const std::string fifo = join_path(folder, "fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, folder, std::string("/dev/null")}) {
    const auto file = fs.open(path);
    ASSERT_FALSE(file) << path;
    EXPECT_EQ(file.error().code(), Code::kUnsupported);
    EXPECT_NE(file.error().message().find(path + ": not a regular file"), std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

// A folder that another user made first, with links in it to files and folders of this user.
class LinksOfOthers : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make links of another user";
    ASSERT_TRUE(fs_.put(join_path(root_, "victim/file"), as_bytes("precious")).ok());
    ASSERT_TRUE(fs_.make_dirs(join_path(root_, "theirs")).ok());
    plant("LOCK", "../victim/file");
    plant("folder", "../victim");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void plant(const std::string& name, const std::string& target) {
    const std::string link = join_path(root_, "theirs/" + name);
    std::filesystem::create_symlink(target, link);
    ASSERT_EQ(::lchown(link.c_str(), 65534, 65534), 0);
  }
  std::string content() {
    const auto read = fs_.read_whole(join_path(root_, "victim/file"), 100);
    return read ? std::string(as_text(*read)) : read.error().message();
  }

  DiskFileSystem& fs_ = static_cast<DiskFileSystem&>(posix_file_system());
  std::string root_ =
      std::filesystem::temp_directory_path() / fmt::format("forebay_links_test_{}", ::getpid());
};

TEST_F(LinksOfOthers, AreNotLockedOrTruncated) {
  const auto lock = fs_.lock(join_path(root_, "theirs/LOCK"));
  ASSERT_FALSE(lock);
  EXPECT_EQ(lock.error().code(), Code::kIo);
  EXPECT_EQ(content(), "precious");
}

TEST_F(LinksOfOthers, AreReplacedByAPut) {
  EXPECT_TRUE(fs_.put(join_path(root_, "theirs/LOCK"), as_bytes("new")).ok());
  EXPECT_EQ(content(), "precious");
}

TEST_F(LinksOfOthers, AreNotFollowedOnTheWay) {
  const Status put = fs_.put(join_path(root_, "theirs/folder/file"), as_bytes("new"));
  EXPECT_NE(put.message().find("is a symbolic link that another user (number 65534) made"),
            std::string::npos)
      << put.message();
  EXPECT_FALSE(fs_.make_dirs(join_path(root_, "theirs/folder/more")).ok());
  EXPECT_FALSE(fs_.remove(join_path(root_, "theirs/folder/file")).ok());
  EXPECT_FALSE(fs_.lock(join_path(root_, "theirs/folder/LOCK")));
  EXPECT_FALSE(fs_.append_to(join_path(root_, "theirs/LOCK")));
  EXPECT_EQ(content(), "precious");
  EXPECT_EQ(fs_.list(join_path(root_, "victim"))->size(), 1u);
}

TEST_F(LinksOfOthers, LinksOfTheirOwnAreFollowed) {
  std::filesystem::create_symlink("victim", join_path(root_, "mine"));
  std::filesystem::create_symlink("victim/file", join_path(root_, "log"));
  EXPECT_TRUE(fs_.put(join_path(root_, "mine/other"), as_bytes("new")).ok());
  EXPECT_EQ(fs_.list(join_path(root_, "victim"))->size(), 2u);
  const auto log = fs_.append_to(join_path(root_, "log"));
  ASSERT_TRUE(log);
  ASSERT_TRUE((*log)->append(as_bytes(" more")).ok());
  EXPECT_EQ(content(), "precious more");
  EXPECT_TRUE(fs_.append_to("/dev/stdout"));
}

TEST(PosixFileSystem, LeavesAFileThatIsNoLockAsItIs) {
  const std::string root =
      std::filesystem::temp_directory_path() / fmt::format("forebay_no_lock_{}", ::getpid());
  FileSystem& fs = posix_file_system();
  ASSERT_TRUE(fs.put(join_path(root, "LOCK"), as_bytes("a user's notes")).ok());
  const auto lock = fs.lock(join_path(root, "LOCK"));
  ASSERT_FALSE(lock);
  EXPECT_NE(lock.error().message().find("it is not a lock of Forebay"), std::string::npos);
  EXPECT_EQ(as_text(*fs.read_whole(join_path(root, "LOCK"), 100)), "a user's notes");
  ASSERT_TRUE(fs.put(join_path(root, "linked"), {}).ok());
  std::filesystem::create_hard_link(join_path(root, "linked"), join_path(root, "LOCK2"));
  EXPECT_FALSE(fs.lock(join_path(root, "LOCK2")));
  std::filesystem::remove_all(root);
}

TEST(DiskFileSystem, LeavesTheOldContentAtEveryFault) {
  for (int64_t at = 0;; ++at) {
    MemoryFileSystem memory;
    ASSERT_TRUE(memory.put("/d/a", as_bytes("old")).ok());
    FaultyFileSystem faulty(memory, {.at = at});
    const Status status = faulty.put("/d/a", as_bytes("new"));
    if (faulty.operations() <= at) {
      EXPECT_TRUE(status.ok());
      EXPECT_GE(at, 5);
      break;
    }
    EXPECT_EQ(status.code(), Code::kNoSpace);
    EXPECT_NE(status.message().find("/d/a: cannot"), std::string::npos) << status.message();
    memory.power_loss();
    EXPECT_EQ(as_text(*memory.read_whole("/d/a", 100)), "old") << "fault at operation " << at;
  }
}

// A process that was killed leaves such a file, and the next put of the same path removes it.
TEST(DiskFileSystem, AnUnfinishedPutIsKnownByItsNameAndReplaced) {
  MemoryFileSystem memory;
  ASSERT_TRUE(memory.make_dirs("/d").ok());
  FaultyFileSystem faulty(memory, {.at = 2});  // the sync, and then the removal too
  ASSERT_FALSE(faulty.put("/d/a", as_bytes("new")).ok());
  const auto left = memory.list("/d").value();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_TRUE(is_unfinished_put(left[0].name)) << left[0].name;
  EXPECT_FALSE(is_unfinished_put(left[0].name.substr(1)));
  for (const char* other : {"a", "a.tmp", ".forebay-index", ".forebay-.tmp", "",
                            ".forebay-0123456789abcdeg.tmp", ".forebay-0123456789abcdef0.tmp"}) {
    EXPECT_FALSE(is_unfinished_put(other)) << other;
  }
  ASSERT_TRUE(memory.put("/d/a", as_bytes("new")).ok());
  EXPECT_EQ(memory.list("/d")->size(), 1u);
}

}  // namespace
}  // namespace forebay::io
