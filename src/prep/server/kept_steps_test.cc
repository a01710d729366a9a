// What a prep server keeps: bounded, each step once, and gone when its host is.
#include "prep/server/kept_steps.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "feed/testing/remote_fixture.h"
#include "io/testing/comes_true.h"
#include "prep/server/server_job.h"

namespace forebay::prep {
namespace {

using io::testing::comes_true;
using Made = base::Result<io::serve::MadeAnswer>;

TEST(KeptSteps, TheOldestGoWhereThereIsNoRoom) {
  KeptSteps kept(100);
  EXPECT_FALSE(kept.keep({.step = {0, 0}, .answer = {}, .bytes = 101}));
  for (uint64_t step = 0; step < 4; ++step) {
    EXPECT_TRUE(kept.keep({.step = {0, step}, .answer = {}, .bytes = 40}));
  }
  EXPECT_FALSE(kept.has({0, 1}));
  EXPECT_TRUE(kept.has({0, 2}));
  EXPECT_TRUE(kept.keep({.step = {0, 2}, .answer = {}, .bytes = 60}));  // again
  EXPECT_TRUE(kept.has({0, 3}));
  EXPECT_EQ(kept.take({0, 2})->bytes, 60u);
  EXPECT_FALSE(kept.take({0, 2}));
  EXPECT_TRUE(kept.drop_oldest());
  EXPECT_FALSE(kept.drop_oldest());
}

class WorkTest : public feed::RemoteTest {
 protected:
  std::unique_ptr<ServerJob> open(uint64_t memory = 100'000'000,
                                  std::shared_ptr<BatchFolder> folder = nullptr) {
    feed::FeedOptions wanted = options();
    wanted.memory_bytes_max = memory;
    return std::make_unique<ServerJob>("job", wanted,
                                       feed::StepMaker::open(dataset(*fs_), wanted).value(),
                                       std::move(folder), counts_);
  }
  static Made ask(ServerJob& work, uint64_t step, Asked asked = Asked::kSend) {
    std::promise<Made> done;
    work.ask({.job = "job", .epoch = 0, .step = step, .asked = asked}, {},
             [&](Made made) { done.set_value(std::move(made)); });
    return done.get_future().get();
  }
  static Made keep(ServerJob& work, uint64_t step) { return ask(work, step, Asked::kKeep); }
  // Asks for a step as a file, and returns the file's name.
  static std::string file_of(ServerJob& work, uint64_t step) {
    const Made made = ask(work, step, Asked::kFile);
    return decode_file_answer(base::as_text(made->pieces[0])).value().name;
  }

  static ptrdiff_t files_in(const std::string& folder) {
    const std::filesystem::directory_iterator files(folder);
    return std::distance(begin(files), end(files));
  }

  ServerCounts counts_;
};

TEST_F(WorkTest, WhatIsKeptIsMadeOnce) {
  const auto work = open();
  EXPECT_TRUE(keep(*work, 5)->pieces.empty());
  EXPECT_TRUE(keep(*work, 5)->pieces.empty());
  EXPECT_EQ(counts_.steps, 1u);
  EXPECT_EQ(counts_.bytes, 0u);
  EXPECT_FALSE(ask(*work, 5)->pieces.empty());
  EXPECT_EQ(counts_.steps, 1u);
  EXPECT_GT(counts_.bytes, 0u);
  EXPECT_FALSE(ask(*work, 5)->pieces.empty());  // it is no longer kept
  EXPECT_EQ(counts_.steps, 2u);
  ASSERT_TRUE(keep(*work, 6));
  EXPECT_TRUE(ask(*work, 6, Asked::kOver)->pieces.empty());
  EXPECT_FALSE(ask(*work, 6)->pieces.empty());
  EXPECT_EQ(counts_.steps, 4u);
}

TEST_F(WorkTest, AHostStaysUntilItHangsUp) {
  const auto work = open();
  EXPECT_TRUE(work->is_idle());
  std::stop_source leaves;
  bool is_answered = false;
  int left = 0;
  work->stay(leaves.get_token(), [&](const Made& made) { is_answered = !made; }, [&] { ++left; });
  EXPECT_TRUE(work->has_host());
  EXPECT_FALSE(work->is_idle());
  EXPECT_EQ(left, 0);
  // The host opens another connection before the prep server learns that the first one has failed.
  std::stop_source leaves_again;
  work->stay(leaves_again.get_token(), [](const Made&) {}, [&] { ++left; });
  leaves.request_stop();
  EXPECT_TRUE(is_answered);
  EXPECT_EQ(left, 1);
  EXPECT_TRUE(work->has_host());
  leaves_again.request_stop();
  EXPECT_EQ(left, 2);
  EXPECT_FALSE(work->has_host());
}

TEST_F(WorkTest, AHostThatLostTrackLeavesNothingBehind) {
  const auto work = open();
  ASSERT_TRUE(keep(*work, 1));
  work->drop_kept();
  ASSERT_TRUE(ask(*work, 1));
  EXPECT_EQ(counts_.steps, 2u);
}

TEST_F(WorkTest, FilesAreKeptUntilTheirHostHasReadThem) {
  const std::string parent = testing::TempDir() + "kept_files_" + std::to_string(::getpid());
  std::filesystem::create_directory(parent);
  const auto folder = BatchFolder::open(parent, 100'000'000).value();
  const auto is_there = [&](const std::string& name) {
    return std::filesystem::exists(folder->path() + "/" + name);
  };
  {
    const auto work = open(100'000'000, folder);
    EXPECT_TRUE(ask(*work, 5, Asked::kKeepFile)->pieces.empty());
    EXPECT_TRUE(ask(*work, 5, Asked::kKeepFile)->pieces.empty());
    EXPECT_EQ(counts_.steps, 1u);
    const std::string name = file_of(*work, 5);
    EXPECT_EQ(counts_.steps, 1u);
    EXPECT_TRUE(is_there(name));
    ASSERT_TRUE(ask(*work, 5, Asked::kOver));
    const std::string again = file_of(*work, 5);  // it is made again
    EXPECT_EQ(counts_.steps, 2u);
    EXPECT_TRUE(is_there(again));
    EXPECT_FALSE(is_there(name));

    ASSERT_TRUE(ask(*work, 6, Asked::kKeepFile));
    work->drop_kept();
    file_of(*work, 6);
    EXPECT_EQ(counts_.steps, 4u);
    // A host that does not see the folder gets the batch.
    ASSERT_TRUE(ask(*work, 7, Asked::kKeepFile));
    EXPECT_GT(ask(*work, 7)->pieces.size(), 1u);
  }
  // The lock and the mark are left.
  EXPECT_TRUE(comes_true([&] { return files_in(folder->path()) == 2; }));
  std::filesystem::remove_all(parent);
}

// A file is the same if its inode's number is.
TEST_F(WorkTest, AFileThatIsOverTakesTheNextBatch) {
  const std::string parent = testing::TempDir() + "spare_files_" + std::to_string(::getpid());
  std::filesystem::create_directory(parent);
  const auto folder = BatchFolder::open(parent, 100'000'000).value();
  const auto path = [&](const std::string& name) { return folder->path() + "/" + name; };
  const auto number_of = [&](const std::string& name) {
    struct stat info{};
    EXPECT_EQ(::stat(path(name).c_str(), &info), 0) << name;
    return info.st_ino;
  };
  {
    const auto work = open(100'000'000, folder);
    const std::string first = file_of(*work, 1);
    const auto number = number_of(first);
    const auto bytes = std::filesystem::file_size(path(first));
    const std::string other = file_of(*work, 2);
    EXPECT_NE(number_of(other), number);  // the first file has not been read yet
    ASSERT_TRUE(ask(*work, 1, Asked::kOver));
    std::filesystem::resize_file(path(first), bytes + 1000);
    const std::string third = file_of(*work, 3);
    EXPECT_EQ(number_of(third), number);
    EXPECT_NE(third, first);  // a host that reads the first file late does not get the third
    EXPECT_EQ(std::filesystem::file_size(path(third)), bytes);
    // At most two files stay, besides the lock and the mark.
    for (uint64_t step = 4; step < 8; ++step) file_of(*work, step);
    for (uint64_t step = 2; step < 8; ++step) ASSERT_TRUE(ask(*work, step, Asked::kOver));
    EXPECT_TRUE(comes_true([&] { return files_in(folder->path()) == 2 + 2; }));
    // Files that somebody has removed are made anew.
    for (const auto& entry : std::filesystem::directory_iterator(folder->path())) {
      if (entry.file_size() == bytes) std::filesystem::remove(entry.path());
    }
    EXPECT_EQ(std::filesystem::file_size(path(file_of(*work, 0))), bytes);
    EXPECT_EQ(folder->trouble(), "");
  }
  EXPECT_TRUE(comes_true([&] { return files_in(folder->path()) == 2; }));
  std::filesystem::remove_all(parent);
}

TEST_F(WorkTest, ThereIsAlwaysRoomForWork) {
  const auto least = least_memory(dataset(*fs_), options());
  const auto work = open(least);
  const uint64_t steps = dataset(*fs_)->sample_count() / feed::kRemoteBatch;
  for (uint64_t step = 0; step < steps; ++step) {
    ASSERT_TRUE(keep(*work, step)) << step;
    ASSERT_TRUE(ask(*work, (step + 7) % steps));
  }
}

}  // namespace
}  // namespace forebay::prep
