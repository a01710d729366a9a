// Tone tables. The code that applies them is compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/augment/tone.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "image/augment/tone.h"
#include "image/transform/blend.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Replaces each byte by its entry in the table. `count` is a multiple of kPlanarPadding.
void look_up(const std::array<uint8_t, 256>& table, size_t count, uint8_t* bytes) {
  const hn::CappedTag<uint8_t, base::kPlanarPadding> d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto value = hn::LoadU(d, bytes + i);
    auto found = hn::Zero(d);
    for (size_t part = 0; part < 256; part += 16) {
      // Values of this part become their last four bits, and all others get the highest bit.
      const auto place = hn::Xor(value, hn::Set(d, static_cast<uint8_t>(part)));
      const auto marked = hn::And(hn::SaturatedAdd(place, hn::Set(d, 0x70)), hn::Set(d, 0x8f));
      found =
          hn::Or(found, hn::TableLookupBytesOr0(hn::LoadDup128(d, table.data() + part), marked));
    }
    hn::StoreU(found, d, bytes + i);
  }
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(look_up);

namespace {

using Channel = std::array<uint32_t, 256>;

// Returns the same table for all channels: the byte make(value) for each value.
template <class Make>
ToneTable same_for_all(const Make& make) {
  ToneTable out;
  for (size_t value = 0; value < 256; ++value) out[0][value] = make(static_cast<uint32_t>(value));
  out[1] = out[2] = out[0];
  return out;
}

ToneTable unchanged_tone() {
  return same_for_all([](uint32_t value) { return static_cast<uint8_t>(value); });
}

// Rounds down, like PyTorch.
uint8_t to_byte(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F)); }

// Four counters for each value, because a processor waits for an addition to the same place.
Channel count(const Picture& picture, size_t channel) {
  std::array<Channel, 4> counts{};
  const Size size = picture.size();
  for (uint32_t y = 0; y < size.height; ++y) {
    const uint8_t* const row = picture.row(channel, y);
    uint32_t x = 0;
    for (; x + 4 <= size.width; x += 4) {
      for (size_t i = 0; i < 4; ++i) ++counts[i][row[x + i]];
    }
    for (; x < size.width; ++x) ++counts[0][row[x]];
  }
  for (size_t value = 0; value < 256; ++value) {
    for (size_t i = 1; i < 4; ++i) counts[0][value] += counts[i][value];
  }
  return counts[0];
}

}  // namespace

Histogram histogram_of(const Picture& picture) {
  return {count(picture, 0), count(picture, 1), count(picture, 2)};
}

Histogram changed(const Histogram& histogram, const ToneTable& table) {
  Histogram out{};
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t value = 0; value < 256; ++value) {
      out[channel][table[channel][value]] += histogram[channel][value];
    }
  }
  return out;
}

ToneTable followed_by(const ToneTable& first, const ToneTable& second) {
  ToneTable out;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t value = 0; value < 256; ++value) {
      out[channel][value] = second[channel][first[channel][value]];
    }
  }
  return out;
}

void change_tone(const ToneTable& table, Picture* picture) {
  const size_t count = picture->stride() * picture->size().height;
  for (size_t channel = 0; channel < 3; ++channel) {
    uint8_t* const plane = picture->row(channel, 0);
#ifdef FOREBAY_X86_KERNELS
    if (runs_avx512()) {
      look_up_avx512(table[channel].data(), count, plane);
      continue;
    }
#endif
    HWY_DYNAMIC_DISPATCH(look_up)(table[channel], count, plane);
  }
}

ToneTable brightness(double factor) {
  const auto by = static_cast<float>(factor);
  return same_for_all([=](uint32_t value) { return to_byte(static_cast<float>(value) * by); });
}

ToneTable contrast(double factor, float grey_mean) {
  const auto own = static_cast<float>(factor);
  const auto rest = static_cast<double>(static_cast<float>(1 - factor));
  return same_for_all([=](uint32_t value) {
    // PyTorch rounds once after the product and the sum of the mean.
    const double added = rest * static_cast<double>(grey_mean);
    return to_byte(
        static_cast<float>(static_cast<double>(static_cast<float>(value) * own) + added));
  });
}

ToneTable posterize(uint32_t bits) {
  const uint32_t mask = bits >= 8 ? 0xff : (0xffU << (8 - bits)) & 0xff;
  return same_for_all([=](uint32_t value) { return static_cast<uint8_t>(value & mask); });
}

ToneTable solarize(double threshold) {
  const auto least = static_cast<float>(threshold);  // like PyTorch, which compares in float32
  return same_for_all([=](uint32_t value) {
    return static_cast<uint8_t>(static_cast<float>(value) >= least ? 255 - value : value);
  });
}

ToneTable solarize_add(uint32_t added, uint32_t threshold) {
  return same_for_all([=](uint32_t value) {
    return static_cast<uint8_t>(value < threshold ? std::min(value + added, 255U) : value);
  });
}

ToneTable inverted() { return solarize(0); }

ToneTable autocontrast(const Histogram& histogram) {
  ToneTable out = unchanged_tone();
  for (size_t channel = 0; channel < 3; ++channel) {
    const Channel& counts = histogram[channel];
    uint32_t least = 0;
    uint32_t most = 255;
    while (least < 255 && counts[least] == 0) ++least;
    while (most > least && counts[most] == 0) --most;
    if (least == most) continue;
    const float scale = static_cast<float>(most - least) * (1.0F / 255);
    for (uint32_t value = least; value <= most; ++value) {
      out[channel][value] = to_byte(static_cast<float>(value - least) / scale);
    }
  }
  return out;
}

ToneTable equalize(const Histogram& histogram) {
  ToneTable out = unchanged_tone();
  for (size_t channel = 0; channel < 3; ++channel) {
    const Channel& counts = histogram[channel];
    uint32_t pixels = 0;
    uint32_t most = 0;
    for (uint32_t value = 0; value < 256; ++value) {
      pixels += counts[value];
      if (counts[value] > 0) most = value;
    }
    const uint32_t step = (pixels - counts[most]) / 255;
    if (step == 0) continue;
    uint32_t before = step / 2;
    for (uint32_t value = 0; value < 256; ++value) {
      out[channel][value] = static_cast<uint8_t>(std::min(before / step, 255U));
      before += counts[value];
    }
  }
  return out;
}

}  // namespace forebay::image
#endif  // HWY_ONCE
