// Files in the folder are checked before they are used, and nothing that happens to the folder does
// harm.
#include "io/kept_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/random.h"
#include "io/origin.h"

namespace forebay::io {
namespace {

using base::ByteVector;

std::string named(std::string_view what) { return fmt::format("{:064x}.{}", 7, what); }

class KeptFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / fmt::format("forebay_kept_{}", ::getpid());
    std::filesystem::create_directories(root_);
    folder_ = root_ + "/caches/forebay";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static ByteVector made(uint32_t seed, size_t bytes) {
    base::Random random(seed, base::Purpose::kTest);
    ByteVector out(bytes);
    for (uint8_t& byte : out) byte = static_cast<uint8_t>(random.next_u32());
    return out;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name + ".kept"; }
  ByteVector file(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return ByteVector(std::istreambuf_iterator<char>(in), {});
  }
  void replace(const std::string& name, const ByteVector& content) const {
    std::ofstream out(path(name), std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(content.data()),
              static_cast<std::streamsize>(content.size()));
  }
  size_t count() const {
    size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++files;
    return files;
  }

  std::string root_;
  std::string folder_;
};

TEST_F(KeptFilesTest, GivesWhatWasPutToAnotherProcessToo) {
  const KeptFiles kept({.folder = folder_});
  EXPECT_FALSE(kept.has(named("index")));
  EXPECT_FALSE(kept.get(named("index")));
  kept.put(named("index"), made(1, 100'000));
  kept.put(named("empty"), {});
  kept.put(named("index"), made(2, 50'000));
  const KeptFiles other({.folder = folder_});
  EXPECT_TRUE(other.has(named("index")));
  EXPECT_EQ(other.get(named("index")), made(2, 50'000));
  EXPECT_EQ(other.get(named("empty")), ByteVector());
  EXPECT_FALSE(other.get(named("a")));
  EXPECT_EQ(kept.trouble(), "");
  EXPECT_EQ(count(), 2u);
}

TEST_F(KeptFilesTest, OnlyThisUserMayLookAtThem) {
  const KeptFiles kept({.folder = folder_});
  kept.put(named("a"), made(1, 10));
  for (const std::string& one : {root_ + "/caches", folder_, path(named("a"))}) {
    struct stat info{};
    ASSERT_EQ(::stat(one.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077, 0u) << one;
  }
}

TEST_F(KeptFilesTest, DamagedFilesAreNotThere) {
  const KeptFiles kept({.folder = folder_});
  kept.put(named("a"), made(1, 300));
  const ByteVector good = file(named("a"));
  for (size_t i = 0; i < good.size(); ++i) {
    ByteVector damaged = good;
    damaged[i] ^= 0x04;
    replace(named("a"), damaged);
    EXPECT_FALSE(kept.get(named("a"))) << i;
    replace(named("a"), ByteVector(good.begin(), good.begin() + static_cast<ptrdiff_t>(i)));
    EXPECT_FALSE(kept.get(named("a"))) << i;
  }
  ByteVector longer = good;
  longer.push_back(0);
  replace(named("a"), longer);
  EXPECT_FALSE(kept.get(named("a")));
  kept.put(named("a"), made(1, 300));
  EXPECT_EQ(kept.get(named("a")), made(1, 300));
}

TEST_F(KeptFilesTest, FilesOfOthersAreNotBelieved) {
  const KeptFiles kept({.folder = folder_});
  kept.put(named("a"), made(1, 300));
  std::filesystem::copy_file(path(named("a")), path(named("b")));
  EXPECT_FALSE(kept.get(named("b")));  // the content of another name
  std::filesystem::create_symlink(path(named("a")), path(named("c")));
  EXPECT_FALSE(kept.get(named("c")));
  std::filesystem::create_directory(path(named("d")));
  EXPECT_FALSE(kept.get(named("d")));
  ASSERT_EQ(::mkfifo(path(named("e")).c_str(), 0600), 0);
  EXPECT_FALSE(kept.get(named("e")));
  ASSERT_EQ(::chmod(path(named("a")).c_str(), 0660), 0);
  EXPECT_FALSE(kept.get(named("a")));
  ASSERT_EQ(::chmod(path(named("a")).c_str(), 0600), 0);
  EXPECT_TRUE(kept.get(named("a")));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  ASSERT_EQ(::chown(path(named("a")).c_str(), 12345, 12345), 0);
  EXPECT_FALSE(kept.get(named("a")));
}

TEST_F(KeptFilesTest, TheOldestGoWhenThereIsNoMoreRoom) {
  const KeptFiles kept({.folder = folder_, .bytes_max = 100'000});
  const auto name = [](int number) { return named(fmt::format("{:02}", number)); };
  const auto age_file = [](const std::string& file, int64_t seconds) {
    const timespec time{.tv_sec = seconds, .tv_nsec = 0};
    const std::array<timespec, 2> times{time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times.data(), 0), 0);
  };
  for (int number = 0; number < 9; ++number) {
    kept.put(name(number), made(1, 10'000));
    age_file(path(name(number)), 1'000 + number);
  }
  const std::array<std::string, 4> others = {"notes.txt", "1.kept", named("a.b") + ".kept",
                                             "1-2-3-4.unfinished"};
  for (const std::string& other : others) {
    std::ofstream(folder_ + "/" + other) << "somebody else's";
    age_file(folder_ + "/" + other, 1);
  }
  EXPECT_TRUE(kept.get(name(0)));  // which is now used last
  kept.put(name(9), made(1, 10'000));
  EXPECT_TRUE(kept.has(name(0)));
  EXPECT_TRUE(kept.has(name(9)));
  EXPECT_FALSE(kept.has(name(1)));
  EXPECT_TRUE(kept.has(name(8)));
  uint64_t bytes = 0;
  for (int number = 10; number < 200; ++number) kept.put(name(number), made(1, 10'000));
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) bytes += entry.file_size();
  EXPECT_LE(bytes, 112'000u);
  EXPECT_GE(bytes, 80'000u);
  // A bug once: old files of other programs were removed too.
  for (const std::string& other : others) {
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + other)) << other;
  }
}

TEST_F(KeptFilesTest, WhatAKilledProcessLeftGoes) {
  const KeptFiles kept({.folder = folder_});
  kept.put(named("a"), made(1, 10));
  const std::string left = folder_ + "/1-2-3.unfinished";
  std::ofstream(left) << "half";
  KeptFiles({.folder = folder_}).put(named("b"), made(1, 10));
  EXPECT_TRUE(std::filesystem::exists(left));  // its process may still be writing
  const std::array<timespec, 2> old{};
  ASSERT_EQ(::utimensat(AT_FDCWD, left.c_str(), old.data(), 0), 0);
  KeptFiles({.folder = folder_}).put(named("c"), made(1, 10));
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(KeptFilesTest, AFolderThatCannotBeWrittenIsSaidOnce) {
  std::ofstream(root_ + "/file") << "not a folder";
  const KeptFiles kept({.folder = root_ + "/file/forebay"});
  kept.put(named("a"), made(1, 10));
  kept.put(named("b"), made(1, 10));
  EXPECT_FALSE(kept.get(named("a")));
  EXPECT_NE(kept.trouble().find("cannot make the folder " + root_ + "/file/forebay"),
            std::string::npos)
      << kept.trouble();
}

// A process of its own, as the limit holds for all that it writes.
TEST_F(KeptFilesTest, AFullDiskEndsNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 5'000, .rlim_max = 5'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const KeptFiles kept({.folder = folder_});
    kept.put(named("a"), made(1, 100'000));
    ::_exit(kept.trouble().empty() || kept.get(named("a")) ? 1 : 0);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(count(), 0u);
}

// Every file that is read is whole, while processes and threads write and remove the same names.
TEST_F(KeptFilesTest, ManyWritersDoNotDisturbEachOther) {
  const auto work = [this](uint32_t seed) {
    const KeptFiles kept({.folder = folder_, .bytes_max = 60'000});
    base::Random random(seed, base::Purpose::kTest);
    for (int i = 0; i < 300; ++i) {
      const auto number = static_cast<uint32_t>(random.below(8));
      const std::string name = named(fmt::format("{}", number));
      if (random.below(2) == 0) kept.put(name, made(number, 9'000 + number));
      const auto found = kept.get(name);
      if (found && *found != made(number, 9'000 + number)) return false;
    }
    return kept.trouble().empty();
  };
  std::vector<pid_t> children;
  for (uint32_t process = 0; process < 3; ++process) {
    children.push_back(::fork());
    if (children.back() == 0) ::_exit(work(process + 10) ? 0 : 1);
  }
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (uint32_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] { wrong += work(thread) ? 0 : 1; });
    }
  }
  EXPECT_EQ(wrong, 0);
  for (const pid_t child : children) {
    int status = 1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(UsualFolderOfKeptFiles, FollowsTheEnvironment) {
  const std::string root = std::filesystem::temp_directory_path() / "forebay_kept_usual";
  const auto folder_with = [&](const char* cache, const char* caches, const char* home) {
    ::setenv("FOREBAY_INDEX_CACHE", cache, 1);
    ::setenv("XDG_CACHE_HOME", caches, 1);
    ::setenv("HOME", home, 1);
    std::filesystem::remove_all(root);
    const auto kept = kept_files("");
    if (kept == nullptr) return std::string("none");
    kept->put(named("a"), {});
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) return entry.path().string().substr(root.size());
    }
    return std::string("nothing");
  };
  const std::string file = named("a") + ".kept";
  const std::string home = ::getenv("HOME") == nullptr ? "" : ::getenv("HOME");
  const std::string own = root + "/own";
  const std::string caches = root + "/caches";
  EXPECT_EQ(folder_with(own.c_str(), caches.c_str(), root.c_str()), "/own/" + file);
  EXPECT_EQ(folder_with("", caches.c_str(), root.c_str()), "/caches/forebay/" + file);
  EXPECT_EQ(folder_with("", "", root.c_str()), "/.cache/forebay/" + file);
  EXPECT_EQ(kept_files("off"), nullptr);
  EXPECT_EQ(folder_with("off", caches.c_str(), root.c_str()), "none");
  EXPECT_EQ(folder_with("", "", ""), "none");
  std::filesystem::remove_all(root);
  ::unsetenv("FOREBAY_INDEX_CACHE");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace forebay::io
