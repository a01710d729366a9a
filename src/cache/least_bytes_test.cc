// How near the held ranges come to the fewest bytes that have to be fetched for the crops of some
// epochs.
#include "cache/testing/least_bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/bytes.h"
#include "base/random.h"
#include "cache/held/held_ranges.h"

namespace forebay::cache {
namespace {

using base::Random;
using io::Again;

// The least bytes over all choices of what to keep after each step, byte by byte.
uint64_t least_by_trying_all(const std::vector<Step>& trace, uint64_t room, size_t bytes) {
  std::vector<uint64_t> costs(size_t{1} << bytes, UINT64_MAX);  // by the set of kept bytes
  costs[0] = 0;
  for (const Step& step : trace) {
    size_t wanted = 0;
    for (const auto& [begin, end] : step) {
      for (uint64_t at = begin; at < end; ++at) wanted |= size_t{1} << at;
    }
    std::vector<uint64_t> after(costs.size(), UINT64_MAX);
    for (size_t kept = 0; kept < costs.size(); ++kept) {
      if (costs[kept] == UINT64_MAX) continue;
      const auto missing = static_cast<uint64_t>(std::popcount(wanted & ~kept));
      const size_t at_hand = wanted | kept;
      for (size_t choice = at_hand;; choice = (choice - 1) & at_hand) {
        if (static_cast<uint64_t>(std::popcount(choice)) <= room) {
          after[choice] = std::min(after[choice], costs[kept] + missing);
        }
        if (choice == 0) break;
      }
    }
    costs = std::move(after);
  }
  return *std::ranges::min_element(costs);
}

TEST(LeastBytes, NothingThatCanBeKeptFetchesFewer) {
  constexpr size_t kBytes = 7;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed, base::Purpose::kTest);
    std::vector<Step> trace(2 + random.below(7));
    for (Step& step : trace) {
      const uint64_t begin = random.below(kBytes);
      const uint64_t end = begin + 1 + random.below(kBytes - begin);
      step.emplace_back(begin, end);
      if (end + 1 < kBytes && random.below(2) == 0) step.emplace_back(end + 1, kBytes);
    }
    const uint64_t room = random.below(kBytes);
    EXPECT_EQ(least_bytes(trace, room), least_by_trying_all(trace, room, kBytes));
  }
}

// Whether the reader of a trace says what the next epoch needs.
enum class Says : uint8_t { kNothing, kWhatTheNextNeeds };

constexpr uint64_t kSamples = 300;
constexpr uint64_t kEpochs = 8;

// Crops of images that lie one after the other in a file, in epochs of all samples.
class Crops {
 public:
  // An image has `rows` rows, of each of which a crop needs a part; with one row a crop needs one
  // part of the image's bytes.
  Crops(uint64_t seed, uint64_t rows) : rows_(rows), random_(seed, base::Purpose::kTest) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < kSamples; ++i) {
      begins_.push_back(at);
      at += 40'000 + random_.below(120'000);
    }
    begins_.push_back(at);
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      orders_.emplace_back(kSamples);
      std::iota(orders_.back().begin(), orders_.back().end(), 0u);
      base::shuffle(std::span(orders_.back()), random_);
      for (uint64_t i = 0; i < kSamples; ++i) crops_.push_back(draw(begins_[i], begins_[i + 1]));
    }
  }
  const std::vector<uint32_t>& order(uint64_t epoch) const { return orders_[epoch]; }
  const Step& crop(uint64_t epoch, uint64_t sample) const {
    return crops_[epoch * kSamples + sample];
  }
  std::vector<Step> trace() const {
    std::vector<Step> steps;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      for (const uint32_t sample : orders_[epoch]) steps.push_back(crop(epoch, sample));
    }
    return steps;
  }
  uint64_t bytes_of_epoch() const {
    uint64_t bytes = 0;
    for (const Step& crop : crops_) {
      for (const auto& [begin, end] : crop) bytes += end - begin;
    }
    return bytes / kEpochs;
  }

 private:
  // A crop's share of an image's height or width, and the share above or left of the crop.
  std::pair<double, double> draw_side(double share) {
    return {share, random_.uniform() * (1 - share)};
  }
  Step draw(uint64_t begin, uint64_t end) {
    const double area = 0.08 + 0.92 * random_.uniform();
    const auto [height, above] = draw_side(std::sqrt(area));
    const auto [width, left] = rows_ == 1 ? std::pair(1.0, 0.0) : draw_side(std::sqrt(area));
    const auto bytes = static_cast<double>(end - begin);
    const auto place = [&](double share) { return begin + static_cast<uint64_t>(share * bytes); };
    if (rows_ == 1) return {{place(above), place(above + height)}};
    Step step;
    const auto rows = static_cast<double>(rows_);
    const auto last = std::min(rows, std::ceil((above + height) * rows));
    for (double row = std::floor(above * rows); row < last; ++row) {
      step.emplace_back(place((row + left) / rows), place((row + left + width) / rows));
    }
    return step;
  }

  const uint64_t rows_;
  Random random_;
  std::vector<uint64_t> begins_;
  std::vector<std::vector<uint32_t>> orders_;
  std::vector<Step> crops_;
};

// The whole blocks of a span.
Span whole_blocks(const Span& span) {
  const uint64_t begin = base::round_up(span.first, kCheckBytes);
  return {begin, std::max(begin, span.second / kCheckBytes * kCheckBytes)};
}

// What a feed says of a span that it reads, if the next epoch needs another span
// (feed/read/needed_next.h): where the bytes that are needed soon begin and end.
Span soon_of(const Span& read, const Span& needed) {
  const Span blocks = whole_blocks(needed);
  const uint64_t begin = std::clamp(blocks.first, read.first, read.second);
  const Span soon{begin, std::clamp(blocks.second, begin, read.second)};
  const bool is_long = soon.second - soon.first >= 4 * kCheckBytes;
  return is_long ? whole_blocks(soon) : soon;
}

// The bytes that held ranges with this room have to fetch.
uint64_t bytes_fetched(const Crops& crops, uint64_t room, Says says) {
  const std::string folder =
      ::testing::TempDir() + "/least_bytes_test_" + std::to_string(::getpid());
  const auto store = HeldRanges::open({}, {folder, room}, io::Found::kRemove).value();
  base::ByteVector memory(200'000);
  uint64_t fetched = 0;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (const uint32_t sample : crops.order(epoch)) {
      const Step& next = crops.crop(std::min(epoch + 1, kEpochs - 1), sample);
      std::vector<io::Range> ranges;
      const auto add = [&](uint64_t begin, uint64_t end, Again again) {
        if (begin >= end) return;
        if (says == Says::kNothing) again = Again::kSoon;
        ranges.push_back({begin, base::MutableBytes(memory).first(end - begin), again});
      };
      for (const auto& [begin, end] : crops.crop(epoch, sample)) {
        const auto [soon, later] = soon_of({begin, end}, {next.front().first, next.back().second});
        add(begin, soon, Again::kLater);
        add(soon, later, Again::kSoon);
        add(later, end, Again::kLater);
      }
      TierBytes hits;
      for (const io::Range& range : store->read({}, ranges, &hits)) {
        fetched += range.out.size();
        store->keep({}, range.offset, range.out, range.again);
      }
    }
  }
  EXPECT_EQ(store->stats().damaged, 0u);
  EXPECT_LE(store->stats().held.disk, room);
  std::filesystem::remove_all(folder);
  return fetched;
}

// `most`: limit of the fetched bytes over the least possible ones.
void compare(uint64_t rows, double share, double most) {
  SCOPED_TRACE(share);
  const Crops crops(7, rows);
  const auto room = static_cast<uint64_t>(share * static_cast<double>(crops.bytes_of_epoch()));
  const auto least = static_cast<double>(least_bytes(crops.trace(), room));
  const auto told = bytes_fetched(crops, room, Says::kWhatTheNextNeeds);
  const auto untold = bytes_fetched(crops, room, Says::kNothing);
  const double ratio = static_cast<double>(told) / least;
  const auto record = [&](const char* name, double value) {
    ::testing::Test::RecordProperty(fmt::format("{}_{}_rows_{}_room", name, rows, share),
                                    fmt::format("{:.3f}", value));
  };
  record("told", ratio);
  record("untold", static_cast<double>(untold) / least);
  EXPECT_LT(ratio, most);
  EXPECT_LT(told, untold);
}

TEST(LeastBytes, TheStoreComesNearForCropsOfOneRange) {
  compare(1, 0.25, 1.03);
  compare(1, 0.5, 1.05);
  compare(1, 0.75, 1.1);
}

TEST(LeastBytes, ShortRangesCostWholeBlocks) {
  compare(24, 0.25, 1.2);
  compare(24, 0.5, 1.45);
  compare(24, 0.75, 1.7);
}

}  // namespace
}  // namespace forebay::cache
