#include "train/sync/encoding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/status.h"
#include "train/sync/floats.h"

namespace forebay::train {

using base::Bytes;

namespace {

constexpr size_t kTopOfBlock = 16;
constexpr float kCodeMost = 127;
// A block whose numbers are all smaller than this becomes zeros, so that no scale is subnormal.
constexpr float kLeast = 1e-30F;

size_t top_of(size_t block) { return std::min(block, kTopOfBlock); }

size_t block_bytes(Encoding encoding, size_t numbers) {
  if (encoding == Encoding::kFloat32) return numbers * sizeof(float);
  if (encoding == Encoding::kInt8) return sizeof(float) + numbers;
  return sizeof(float) + 2 * top_of(numbers);
}

// Returns bits that have the same order as the absolute values. The compiler can use SIMD for
// integers.
int32_t size_bits(float value) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(value) & 0x7fffffffu);
}

int32_t largest_of(std::span<const float> block) {
  int32_t largest = 0;
  for (const float value : block) largest = std::max(largest, size_bits(value));
  return largest;
}

// The scale has 16 significant bits, so that its multiples up to 127 are exact, and encoding
// rounded numbers again gives the same scale.
float scale_of(int32_t largest_bits) {
  constexpr int32_t kInfinity = 0x7f800000;
  if (largest_bits >= kInfinity) return std::numeric_limits<float>::quiet_NaN();
  const auto largest = std::bit_cast<float>(largest_bits);
  if (largest < kLeast) return 0;
  constexpr uint32_t kOthers = 0xff;
  const auto bits = std::bit_cast<uint32_t>(largest / kCodeMost);
  return std::bit_cast<float>((bits + kOthers) & ~kOthers);
}

// Rounds a number to the nearest multiple of the block's scale, and returns the multiple.
struct Rounding {
  explicit Rounding(float scale_) : scale(scale_), inverse(1 / scale_) {}
  uint8_t operator()(float& value) const {
    const float exact = value * inverse;
    const auto code = static_cast<int32_t>(exact + std::copysign(0.5F, exact));
    value = static_cast<float>(code) * scale;
    return static_cast<uint8_t>(code);
  }
  float scale;
  float inverse;
};

using Places = std::array<uint8_t, kTopOfBlock>;

// Returns the places of the numbers with the largest absolute values; of equal numbers, the places
// of the first ones.
Places top_places(std::span<const float> block, int32_t largest_bits) {
  std::array<int32_t, kEncodedBlock> sizes = {};
  std::transform(block.begin(), block.end(), sizes.begin(), size_bits);
  const auto not_below = [&sizes](int32_t bound) {
    int32_t count = 0;
    for (const int32_t size : sizes) count += static_cast<int32_t>(size >= bound);
    return count;
  };
  // Bisection: more than kMost numbers are at least `more`, and at most kMost are at least `bound`.
  constexpr auto kMost = static_cast<int32_t>(kTopOfBlock);
  int32_t bound = largest_bits + 1;
  constexpr int32_t kTimes256 = 8 << 23;  // added to a float's bits, multiplies it by 256
  int32_t more = bound > kTimes256 && not_below(bound - kTimes256) > kMost ? bound - kTimes256 : 0;
  int32_t count = 0;
  while (count < kMost && bound - more > 1) {
    const int32_t middle = more + (bound - more) / 2;
    const int32_t found = not_below(middle);
    (found > kMost ? more : bound) = middle;
    if (found <= kMost) count = found;
  }
  std::array<uint8_t, kEncodedBlock> places;
  size_t found = 0;
  for (size_t i = 0; i < block.size(); ++i) {  // without branches
    places[found] = static_cast<uint8_t>(i);
    found += static_cast<size_t>(sizes[i] >= bound);
  }
  for (size_t i = 0; i < block.size() && found < kTopOfBlock; ++i) {
    if (sizes[i] == more) places[found++] = static_cast<uint8_t>(i);
  }
  Places out = {};
  std::copy_n(places.begin(), found, out.begin());
  return out;
}

// Writes the places and codes of the largest numbers, and makes the others zeros.
void encode_top(std::span<float> block, int32_t largest_bits, Rounding round, uint8_t* to) {
  const size_t top = top_of(block.size());
  const Places places = top_places(block, largest_bits);
  std::array<float, kTopOfBlock> kept = {};
  for (size_t i = 0; i < top; ++i) kept[i] = block[places[i]];
  std::fill(block.begin(), block.end(), 0.0F);
  for (size_t i = 0; i < top; ++i) {
    to[i] = places[i];
    to[top + i] = round(kept[i]);
    block[places[i]] = kept[i];
  }
}

void encode_block(Encoding encoding, std::span<float> block, uint8_t* to) {
  const int32_t largest_bits = largest_of(block);
  const float scale = scale_of(largest_bits);
  std::memcpy(to, &scale, sizeof scale);
  to += sizeof scale;
  if (!(scale > 0)) {
    std::fill_n(to, block_bytes(encoding, block.size()) - sizeof scale, uint8_t{0});
    std::fill(block.begin(), block.end(), scale);
    return;
  }
  const Rounding round(scale);
  if (encoding == Encoding::kTop) {
    encode_top(block, largest_bits, round, to);
    return;
  }
  for (size_t i = 0; i < block.size(); ++i) to[i] = round(block[i]);
}

void decode_block(Encoding encoding, const uint8_t* from, std::span<float> block) {
  float scale;
  std::memcpy(&scale, from, sizeof scale);
  from += sizeof scale;
  const auto value = [scale](uint8_t code) {
    return static_cast<float>(static_cast<int8_t>(code)) * scale;
  };
  if (encoding == Encoding::kInt8) {
    for (size_t i = 0; i < block.size(); ++i) block[i] = value(from[i]);
    return;
  }
  std::fill(block.begin(), block.end(), 0.0F);
  const size_t top = top_of(block.size());
  for (size_t i = 0; i < top; ++i) {
    // Forebay never sends a position outside of the block.
    if (from[i] < block.size()) block[from[i]] += value(from[top + i]);
  }
}

}  // namespace

size_t encoded_bytes(Encoding encoding, size_t count) {
  const size_t rest = count % kEncodedBlock;
  return count / kEncodedBlock * block_bytes(encoding, kEncodedBlock) +
         (rest > 0 ? block_bytes(encoding, rest) : 0);
}

double bytes_per_number(Encoding encoding) {
  return static_cast<double>(block_bytes(encoding, kEncodedBlock)) / kEncodedBlock;
}

void encode(Encoding encoding, std::span<float> numbers, uint8_t* to) {
  if (encoding == Encoding::kFloat32) {
    if (!numbers.empty()) std::memcpy(to, numbers.data(), numbers.size_bytes());
    return;
  }
  for (size_t at = 0; at < numbers.size(); at += kEncodedBlock) {
    const auto block = numbers.subspan(at, std::min(kEncodedBlock, numbers.size() - at));
    encode_block(encoding, block, to);
    to += block_bytes(encoding, block.size());
  }
}

void decode(Encoding encoding, Bytes bytes, std::span<float> numbers) {
  FOREBAY_CHECK(bytes.size() == encoded_bytes(encoding, numbers.size()));
  if (encoding == Encoding::kFloat32) {
    if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return;
  }
  const uint8_t* from = bytes.data();
  for (size_t at = 0; at < numbers.size(); at += kEncodedBlock) {
    const auto block = numbers.subspan(at, std::min(kEncodedBlock, numbers.size() - at));
    decode_block(encoding, from, block);
    from += block_bytes(encoding, block.size());
  }
}

}  // namespace forebay::train
