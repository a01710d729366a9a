// Sums over meshes whose processes are threads of one process.
#include "train/sync/sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "io/testing/comes_true.h"
#include "io/testing/meshes.h"

namespace forebay::train {
namespace {

using base::ByteVector;
using base::Code;
using io::Mesh;
using io::testing::comes_true;
using io::testing::connected_meshes;
using io::testing::in_each;
using io::testing::Meshes;
using io::testing::seconds_from_now;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Channel = Mesh::Channel;

constexpr Channel kChannel = Channel::kSums;

std::vector<float> numbers_of(uint32_t rank, uint64_t operation, uint64_t count) {
  base::Random random(operation, base::Purpose::kTest, rank);
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(random.uniform() * 1e6 - 3e5);
  return out;
}

// The sum of the ranks' numbers, in their order.
std::vector<float> plain_sum(const std::vector<uint32_t>& ranks, uint64_t operation,
                             uint64_t count) {
  std::vector<float> out = numbers_of(ranks.front(), operation, count);
  for (size_t at = 1; at < ranks.size(); ++at) {
    const auto more = numbers_of(ranks[at], operation, count);
    for (size_t i = 0; i < count; ++i) out[i] += more[i];
  }
  return out;
}

std::vector<uint32_t> all_ranks(uint32_t processes) {
  std::vector<uint32_t> out(processes);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

struct Job {
  explicit Job(uint32_t processes) : meshes(connected_meshes(processes)) {
    for (const auto& mesh : meshes) sums.push_back(std::make_unique<Sums>(*mesh, kChannel));
  }
  Meshes meshes;
  std::vector<std::unique_ptr<Sums>> sums;
};

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

// Takes part in one sum.
std::vector<float> summed(Sums& sums, std::vector<float> numbers) {
  expect_ok(sums.add(numbers, seconds_from_now(60)));
  return numbers;
}

TEST(Sums, AllProcessesGetTheBitsOfAPlainSum) {
  for (uint32_t processes = 1; processes <= 5; ++processes) {
    const Job job(processes);
    in_each(processes, [&](uint32_t rank) {
      for (const uint64_t count : {0u, 1u, processes - 1, processes, processes + 1, 100'003u}) {
        EXPECT_EQ(summed(*job.sums[rank], numbers_of(rank, count, count)),
                  plain_sum(all_ranks(processes), count, count))
            << processes << " processes, " << count << " numbers";
      }
    });
  }
}

TEST(Sums, ProcessesComeLateInAnyOrder) {
  std::vector<uint32_t> order = all_ranks(3);
  uint64_t operation = 0;
  const Job job(3);
  do {
    ++operation;
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, rank = order[i], operation] {
        EXPECT_EQ(summed(*job.sums[rank], numbers_of(rank, operation, 50'000)),
                  plain_sum(all_ranks(3), operation, 50'000));
      });
      if (i == 2) break;  // the last one ends the sum
      std::vector<uint32_t> late(order.begin() + static_cast<ptrdiff_t>(i) + 1, order.end());
      std::ranges::sort(late);
      EXPECT_TRUE(comes_true([&] { return job.sums[order[0]]->missing() == late; }));
    }
    threads.clear();
    EXPECT_THAT(job.sums[0]->missing(), IsEmpty());
  } while (std::ranges::next_permutation(order).found);
}

TEST(Sums, GatherReturnsWhatEachProcessPasses) {
  const Job job(4);
  const auto passed = [](uint32_t rank) {  // rank 0 passes none
    return ByteVector(size_t{rank} * rank * 400'000, static_cast<uint8_t>(rank));
  };
  in_each(4, [&](uint32_t rank) {
    for (int round = 0; round < 3; ++round) {
      const auto all = job.sums[rank]->gather(passed(rank), seconds_from_now(60));
      ASSERT_TRUE(all) << all.error().message();
      for (uint32_t peer = 0; peer < 4; ++peer) EXPECT_TRUE((*all)[peer] == passed(peer)) << peer;
    }
  });
}

TEST(Sums, OneProcessNeedsNoOther) {
  const Job job(1);
  EXPECT_THAT(summed(*job.sums[0], {1, 2}), ElementsAre(1, 2));
  EXPECT_THAT(job.sums[0]->gather(ByteVector{3}, INT64_MAX).value(), ElementsAre(ElementsAre(3)));
  expect_ok(job.sums[0]->say_end());
  EXPECT_FALSE(job.sums[0]->wait_for_more().value());
}

// Makes `own` sums of ones, then takes part in the sums of others with zeros until all have ended.
// Returns what the own sums are.
std::vector<float> ends_after(Sums& sums, int own) {
  std::vector<float> out;
  for (int i = 0; i < own; ++i) out.push_back(summed(sums, std::vector<float>(1000, 1)).front());
  expect_ok(sums.say_end());
  while (true) {
    const auto goes_on = sums.wait_for_more();
    expect_ok(base::status_of(goes_on));
    if (!goes_on || !*goes_on) return out;
    summed(sums, std::vector<float>(1000));
  }
}

TEST(Sums, AProcessThatHasEndedTakesPartUntilAllHaveEnded) {
  const Job job(3);
  std::vector<std::vector<float>> sums(3);
  in_each(3, [&](uint32_t rank) {
    sums[rank] = ends_after(*job.sums[rank], std::array{2, 0, 5}[rank]);
  });
  EXPECT_THAT(sums[0], ElementsAre(2, 2));
  EXPECT_THAT(sums[1], IsEmpty());
  EXPECT_THAT(sums[2], ElementsAre(2, 2, 1, 1, 1));
}

TEST(Sums, NewSumsUseTheChannelAfterOldOnes) {
  Job job(3);
  in_each(3, [&](uint32_t rank) {
    for (int round = 0; round < 5; ++round) {
      const int own = (static_cast<int>(rank) + round) % 3;
      EXPECT_EQ(ends_after(*job.sums[rank], own).size(), static_cast<size_t>(own));
      job.sums[rank] = std::make_unique<Sums>(*job.meshes[rank], kChannel);
    }
  });
}

TEST(Sums, TheProcessesThatHaveNotEndedAreMissing) {
  const Job job(3);
  EXPECT_THAT(job.sums[0]->missing(), IsEmpty());
  std::jthread first([&] { ends_after(*job.sums[0], 0); });
  EXPECT_TRUE(comes_true([&] { return job.sums[0]->missing() == std::vector<uint32_t>{1, 2}; }));
  std::jthread last([&] { ends_after(*job.sums[2], 0); });
  EXPECT_TRUE(comes_true([&] { return job.sums[0]->missing() == std::vector<uint32_t>{1}; }));
  ends_after(*job.sums[1], 0);
  first.join();
  EXPECT_THAT(job.sums[0]->missing(), IsEmpty());
}

// Runs both and expects that both refuse, and name both ranks.
void expect_both_refuse(const std::function<Status()>& first,
                        const std::function<Status()>& second) {
  in_each(2, [&](uint32_t rank) {
    const Status status = rank == 0 ? first() : second();
    EXPECT_EQ(status.code(), Code::kInvalid) << status.message();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
  });
}

Status add(Sums& sums, size_t count) {
  std::vector<float> numbers(count);
  return sums.add(numbers, seconds_from_now(60));
}

Status gather(Sums& sums, size_t bytes) {
  return base::status_of(sums.gather(ByteVector(bytes), seconds_from_now(60)));
}

TEST(Sums, DifferentCountsAreRefused) {
  for (const auto& [first, second] : {std::pair(0u, 1u), {1000u, 1001u}, {2'000'000u, 3u}}) {
    const Job job(2);
    expect_both_refuse([&, count = first] { return add(*job.sums[0], count); },
                       [&, count = second] { return add(*job.sums[1], count); });
  }
}

TEST(Sums, DifferentOperationsAreRefused) {
  for (const size_t count : {0u, 1u, 2'000'000u}) {
    const Job job(2);
    expect_both_refuse([&] { return add(*job.sums[0], count); },
                       [&] { return gather(*job.sums[1], count * sizeof(float)); });
  }
}

TEST(Sums, SumsThatOnlyOneProcessRoundsAreRefused) {
  const Job job(2);
  std::vector<float> left_out(10);
  std::vector<float> numbers(10);
  expect_both_refuse([&] { return add(*job.sums[0], 10); },
                     [&] { return job.sums[1]->add(numbers, seconds_from_now(60), left_out); });
}

TEST(Sums, RoundedSumsAreTheSameInAllProcesses) {
  const Job job(3);
  std::vector<std::vector<float>> found(3);
  std::vector<std::vector<float>> left_out(3, std::vector<float>(400'000));
  for (const uint64_t operation : {1u, 2u}) {
    in_each(3, [&](uint32_t rank) {
      found[rank] = numbers_of(rank, operation, left_out[rank].size());
      expect_ok(job.sums[rank]->add(found[rank], seconds_from_now(60), left_out[rank]));
    });
    const std::vector<float> exact = plain_sum(all_ranks(3), operation, found[0].size());
    for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(found[0][i], exact[i], 15'000) << i;
    EXPECT_EQ(found[1], found[0]);
    EXPECT_EQ(found[2], found[0]);
  }
}

TEST(Sums, ASumOfOneProcessMoreIsRefused) {
  const Job job(2);
  in_each(2, [&](uint32_t rank) { expect_ok(add(*job.sums[rank], 10)); });
  Sums anew(*job.meshes[1], kChannel);
  expect_both_refuse([&] { return add(*job.sums[0], 10); }, [&] { return add(anew, 10); });
}

// A process that knows the token but sends what it likes. Rank 0 listens to rank 1.
struct Hostile : Job {
  Hostile() : Job(2) {}
  void say(uint32_t kind, uint32_t sender, uint64_t number, uint64_t bytes) {
    base::ByteVector out;
    base::ByteWriter to(&out);
    to.number(kind);
    to.number(sender);
    to.number(number);
    to.number(bytes);
    expect_ok(meshes[1]->transfer(kChannel, {{.peer = 0, .rest = out}}, {}));
  }
  Sums& honest() { return *sums[0]; }
};

TEST(Sums, AnUnknownOperationIsRefused) {
  Hostile job;
  job.say(77, 1, 0, 40);
  EXPECT_EQ(add(job.honest(), 10).code(), Code::kInvalid);
}

TEST(Sums, AnotherSenderThanThePeerIsRefused) {
  Hostile job;
  job.say(1, 0, 0, 40);
  EXPECT_EQ(add(job.honest(), 10).code(), Code::kInvalid);
}

TEST(Sums, AnEndThatIsSaidTwiceIsRefused) {
  Hostile job;
  for (int i = 0; i < 2; ++i) job.say(3, 1, 0, 0);
  EXPECT_EQ(add(job.honest(), 10).code(), Code::kInvalid);
}

TEST(Sums, AnnouncedBytesTakeNoMemoryBeforeTheyArrive) {
  Hostile job;
  job.say(2, 1, 0, uint64_t{1} << 40);
  job.meshes[1].reset();
  EXPECT_EQ(gather(job.honest(), 0).code(), Code::kUnavailable);
}

TEST(Sums, MoreBytesThanAllowedAreRefused) {
  Hostile job;
  job.say(2, 1, 0, (uint64_t{1} << 40) + 1);
  EXPECT_EQ(gather(job.honest(), 0).code(), Code::kTooBig);
}

TEST(Sums, AMeshThatGoesAwayInTheMiddleOfASumIsNamed) {
  Job job(3);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const Status status = add(*job.sums[rank], 3'000'000);
      EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();
    });
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(comes_true([&] { return job.sums[rank]->missing() == std::vector<uint32_t>{2}; }));
  }
  job.meshes[2].reset();
}

TEST(Sums, ASumEndsAtItsDeadlineAndNamesWhoDidNotCome) {
  const Job job(3);
  in_each(2, [&](uint32_t rank) {
    std::vector<float> numbers(10);
    const Status status = job.sums[rank]->add(numbers, seconds_from_now(0.2));
    EXPECT_EQ(status.code(), Code::kTimedOut) << status.message();
    EXPECT_EQ(status.message(), "rank 2 did not answer in time");
    EXPECT_THAT(job.sums[rank]->missing(), ElementsAre(2));
  });
}

TEST(Sums, WhoStopsInTheMiddleOfASumIsNamed) {
  Hostile job;
  job.say(1, 1, 0, 10 * sizeof(float));
  const ByteVector part(5 * sizeof(float));  // rank 1 sends its numbers, but never the sums
  expect_ok(job.meshes[1]->transfer(kChannel, {{.peer = 0, .rest = part}}, {}));
  std::vector<float> numbers(10);
  EXPECT_EQ(job.honest().add(numbers, seconds_from_now(0.2)).code(), Code::kTimedOut);
  EXPECT_THAT(job.honest().missing(), ElementsAre(1));
}

TEST(Sums, APieceComesBackBeforeTheNextOneIsThere) {
  Hostile job;
  constexpr size_t kPart = 200'000;
  std::vector<float> numbers = numbers_of(0, 0, 2 * kPart);
  const std::vector<float> sent = numbers_of(1, 0, 2 * kPart);
  const auto bytes = [](std::span<const float> floats) {
    return base::Bytes(reinterpret_cast<const uint8_t*>(floats.data()), floats.size_bytes());
  };
  std::jthread honest([&] { expect_ok(job.honest().add(numbers, seconds_from_now(60))); });
  job.say(1, 1, 0, 2 * kPart * sizeof(float));
  const auto half = bytes(sent).first(kPart / 2 * sizeof(float));
  ByteVector header(24);
  ByteVector part(kPart * sizeof(float));
  ByteVector sum(100'000);  // less than half of the part that rank 0 sums up
  expect_ok(job.meshes[1]->transfer(kChannel, {{.peer = 0, .rest = half}},
                                    {{.peer = 0, .rest = header}}, seconds_from_now(60)));
  for (ByteVector* const room : {&part, &sum}) {
    expect_ok(
        job.meshes[1]->transfer(kChannel, {}, {{.peer = 0, .rest = *room}}, seconds_from_now(60)));
  }
  const std::vector<float> expected = plain_sum({0, 1}, 0, 2 * kPart);
  EXPECT_TRUE(std::ranges::equal(sum, bytes(expected).first(sum.size())));
  // Rank 0 takes whatever it is told to be the sum of the other part.
  ByteVector rest(part.size() - sum.size());
  expect_ok(job.meshes[1]->transfer(kChannel,
                                    {{.peer = 0,
                                      .rest = bytes(sent).subspan(half.size(), half.size()),
                                      .then = bytes(expected).subspan(part.size())}},
                                    {{.peer = 0, .rest = rest}}, seconds_from_now(60)));
  honest.join();
  EXPECT_EQ(numbers, expected);
}

TEST(Sums, StopEndsEveryOperation) {
  const Job job(2);
  std::jthread waiting([&] { EXPECT_EQ(add(*job.sums[0], 10).code(), Code::kCancelled); });
  job.meshes[0]->stop();
  waiting.join();
  EXPECT_EQ(job.sums[0]->say_end().code(), Code::kCancelled);
  EXPECT_EQ(base::status_of(job.sums[0]->wait_for_more()).code(), Code::kCancelled);
}

// Operations that all make, then sums of which each process makes some, and takes part in others.
struct RandomRun {
  explicit RandomRun(uint64_t seed) {
    base::Random random(seed, base::Purpose::kTest);
    processes = 1 + static_cast<uint32_t>(random.below(5));
    together = random.below(10);
    for (uint32_t rank = 0; rank < processes; ++rank) {
      ends.push_back(together + random.below(10));
    }
    for (int i = 0; i < 20; ++i) {
      is_sum.push_back(random.below(2) == 0);
      counts.push_back(random.below(random.below(4) == 0 ? 100'000 : 10));
    }
  }
  void in_process(uint32_t rank, Sums& sums) const {
    uint64_t at = 0;
    for (; at < ends[rank]; ++at) {
      if (at >= together || is_sum[at]) {
        expect_sum(rank, at, sums);
      } else {
        const auto all = sums.gather(ByteVector(counts[at] * rank), seconds_from_now(60));
        ASSERT_TRUE(all) << all.error().message();
        EXPECT_EQ(all->back().size(), counts[at] * (processes - 1));
      }
    }
    expect_ok(sums.say_end());
    for (; sums.wait_for_more().value(); ++at) expect_sum(rank, at, sums);
    EXPECT_EQ(at, std::ranges::max(ends));
  }
  void expect_sum(uint32_t rank, uint64_t at, Sums& sums) const {
    EXPECT_EQ(summed(sums, numbers_of(rank, at, counts[at])),
              plain_sum(all_ranks(processes), at, counts[at]));
  }
  uint32_t processes;
  uint64_t together;  // so many operations are made by all
  std::vector<uint64_t> ends;
  std::vector<bool> is_sum;
  std::vector<uint64_t> counts;
};

TEST(Sums, RandomOperationsWithUnevenEnds) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, "seed " + std::to_string(seed));
    const RandomRun run(seed);
    const Job job(run.processes);
    in_each(run.processes, [&](uint32_t rank) { run.in_process(rank, *job.sums[rank]); });
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace forebay::train
