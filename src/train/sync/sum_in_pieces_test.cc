// Sums whose bytes a loop carries from process to process.
#include "train/sync/sum_in_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"

namespace forebay::train {
namespace {

// A sum with what each process has and gets, by rank.
struct Job {
  Job(uint32_t processes, size_t count, bool is_rounded) {
    for (uint32_t rank = 0; rank < processes; ++rank) {
      base::Random random(count, base::Purpose::kTest, rank);
      std::vector<float>& own = numbers.emplace_back(count);
      for (float& value : own) value = static_cast<float>(random.uniform() - 0.4);
      left_out.emplace_back(is_rounded ? count : 0);
      work.emplace_back(rank, processes);
    }
  }
  void sum() {
    for (size_t rank = 0; rank < work.size(); ++rank)
      work[rank].begin(numbers[rank], left_out[rank]);
    // First the numbers, then the sums: by then all pieces are there.
    std::vector<base::ByteVector> on_their_way(work.size() * work.size());
    for (const bool has_sums : {false, true}) {
      for (uint32_t from = 0; from < work.size(); ++from) {
        for (uint32_t to = 0; to < work.size(); ++to) {
          if (from == to) continue;
          const base::Bytes bytes = has_sums ? work[from].sums_for(to).value_or(base::Bytes())
                                             : work[from].numbers_for(to);
          sent_bytes += bytes.size();
          base::ByteVector& way = on_their_way[from * work.size() + to];
          way.insert(way.end(), bytes.begin(), bytes.end());
        }
      }
      for (uint32_t from = 0; from < work.size(); ++from) {
        for (uint32_t to = 0; to < work.size(); ++to) {
          if (from != to) arrive(from, to, on_their_way[from * work.size() + to]);
        }
      }
    }
  }
  // Gives a process the bytes for which it has room, and removes them.
  void arrive(uint32_t from, uint32_t to, base::ByteVector& bytes) {
    base::MutableBytes& room = rooms[{from, to}];
    while (true) {
      if (room.empty()) room = work[to].room_for(from);
      if (room.empty() || bytes.empty()) return;
      const auto count = std::min(room.size(), bytes.size());
      std::copy_n(bytes.begin(), count, room.begin());
      bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
      room = room.subspan(count);
    }
  }
  std::vector<std::vector<float>> numbers;
  std::vector<std::vector<float>> left_out;
  std::vector<SumInPieces> work;
  std::map<std::pair<uint32_t, uint32_t>, base::MutableBytes> rooms;
  size_t sent_bytes = 0;
};

std::vector<double> exact_sum(const Job& job) {
  std::vector<double> out(job.numbers[0].size());
  for (const auto& own : job.numbers) {
    for (size_t i = 0; i < out.size(); ++i) out[i] += static_cast<double>(own[i]);
  }
  return out;
}

TEST(SumInPieces, RoundedSumsAreTheSameEverywhereAndNearTheExactOnes) {
  for (uint32_t processes = 2; processes <= 4; ++processes) {
    for (const size_t count : {1u, 3u, 700u, 300'001u}) {
      Job job(processes, count, true);
      const std::vector<double> exact = exact_sum(job);
      job.sum();
      for (uint32_t rank = 1; rank < processes; ++rank)
        EXPECT_EQ(job.numbers[rank], job.numbers[0]);
      // Numbers are below 0.6, and each is off by half a multiple of its block's scale at most.
      const double off_max = (0.6 * (processes - 1) + 0.6 * processes) / 127 / 2 * 1.02;
      for (size_t i = 0; i < count; ++i) ASSERT_NEAR(job.numbers[0][i], exact[i], off_max) << i;
    }
  }
}

TEST(SumInPieces, WhatIsLeftOutIsKeptByTheProcessThatRounded) {
  Job job(3, 200'000, true);
  const std::vector<double> exact = exact_sum(job);
  job.sum();
  for (size_t i = 0; i < exact.size(); ++i) {
    double all = static_cast<double>(job.numbers[0][i]);
    for (const auto& own : job.left_out) all += static_cast<double>(own[i]);
    ASSERT_NEAR(all, exact[i], 1e-6) << i;
  }
}

TEST(SumInPieces, RoundedSumsTakeAFourthOfTheBytes) {
  Job plain(2, 1 << 20, false);
  Job rounded(2, 1 << 20, true);
  plain.sum();
  rounded.sum();
  EXPECT_EQ(plain.sent_bytes, 2u * sizeof(float) << 20);
  EXPECT_EQ(rounded.sent_bytes, 2 * encoded_bytes(Encoding::kInt8, 1 << 20));
}

TEST(SumInPieces, ANumberThatIsNotFiniteMakesItsBlockNotFiniteEverywhere) {
  Job job(2, 4 * kEncodedBlock, true);
  job.numbers[0].front() = std::numeric_limits<float>::infinity();  // in the own part
  job.numbers[0].back() = std::numeric_limits<float>::quiet_NaN();  // in the other part
  job.sum();
  for (const auto& own : job.numbers) {
    EXPECT_FALSE(std::isfinite(own.front()));
    EXPECT_FALSE(std::isfinite(own.back()));
    EXPECT_TRUE(std::isfinite(own[kEncodedBlock]));
    EXPECT_TRUE(std::isfinite(own[2 * kEncodedBlock]));
  }
}

}  // namespace
}  // namespace forebay::train
