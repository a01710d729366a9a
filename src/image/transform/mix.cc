#include "image/transform/mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "image/transform/distributions.h"
#include "image/transform/half.h"

namespace forebay::image {
namespace {

const MixChoice& choose(std::span<const MixChoice> choices, base::Random& random) {
  if (choices.size() == 1) return choices.front();
  double total = 0;
  for (const MixChoice& choice : choices) total += choice.weight;
  double left = total * random.uniform();
  const MixChoice* chosen = nullptr;
  for (const MixChoice& choice : choices) {
    if (choice.weight == 0) continue;
    chosen = &choice;  // the last choice also gets what rounding leaves over
    if (left < choice.weight) break;
    left -= choice.weight;
  }
  FOREBAY_CHECK(chosen != nullptr);
  return *chosen;
}

struct Side {
  uint32_t begin;
  uint32_t length;
};

// Returns the part around `centre`, cut off at the sides of the image.
Side draw_side(uint64_t centre, double half_share, uint32_t side) {
  const auto half = static_cast<int64_t>(half_share * side);
  const int64_t at = static_cast<int64_t>(centre);
  const int64_t begin = std::max<int64_t>(at - half, 0);
  const int64_t end = std::min<int64_t>(at + half, side);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin)};
}

// Pieces of this many bytes of all samples are mixed one after the other, so that each sample is
// loaded from memory once although two samples need it.
constexpr size_t kPartBytes = 8192;

// Calls combine(numbers of a sample, numbers of the sample before, count), from the last sample to
// the first.
template <class T, class Combine>
void mix_with_last(size_t samples, size_t numbers, T* first, const Combine& combine) {
  if (samples == 0) return;
  std::vector<T> last(std::min(numbers, kPartBytes / sizeof(T)));
  for (size_t at = 0; at < numbers; at += last.size()) {
    const size_t count = std::min(last.size(), numbers - at);
    std::copy_n(first + (samples - 1) * numbers + at, count, last.data());
    for (size_t sample = samples; sample-- > 1;) {
      combine(first + sample * numbers + at, first + (sample - 1) * numbers + at, count);
    }
    combine(first + at, last.data(), count);
  }
}

void mix_float32(double own, size_t samples, size_t numbers, float* first) {
  const auto kept = static_cast<float>(own);
  const auto added = static_cast<float>(1 - own);
  mix_with_last(samples, numbers, first, [=](float* to, const float* before, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = before[i] * added + to[i] * kept;
  });
}

// Rounds after each operation, like PyTorch does for numbers of 16 bits.
template <uint16_t (*kTo)(float), float (*kFrom)(uint16_t)>
void mix_half(double own, size_t samples, size_t numbers, uint16_t* first) {
  const auto kept = static_cast<float>(own);
  const auto added = static_cast<float>(1 - own);
  const auto rounded = [](float value) { return kFrom(kTo(value)); };
  mix_with_last(samples, numbers, first, [=](uint16_t* to, const uint16_t* before, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const float other = rounded(kFrom(before[i]) * added);
      to[i] = kTo(other + rounded(kFrom(to[i]) * kept));
    }
  });
}

void cut(const Rect& box, const BatchShape& batch, uint8_t* images) {
  const bool planar = batch.layout == Layout::kNchw;
  const size_t planes = planar ? 3 : 1;
  const size_t pixel = dtype_bytes(batch.dtype) * (planar ? 1 : 3);
  const size_t row = pixel * batch.size.width;
  const size_t plane = row * batch.size.height;
  const size_t bytes = box.width * pixel;
  const auto each_row = [&](size_t sample, const auto& take) {
    uint8_t* const first = images + sample * planes * plane + box.y * row + box.x * pixel;
    for (size_t i = 0; i < planes * box.height; ++i) {
      take(first + i / box.height * plane + i % box.height * row);
    }
  };
  base::ByteVector last;
  last.reserve(planes * box.height * bytes);
  each_row(batch.samples - 1,
           [&](const uint8_t* from) { last.insert(last.end(), from, from + bytes); });
  for (size_t sample = batch.samples - 1; sample > 0; --sample) {
    each_row(sample, [&](uint8_t* to) { std::memcpy(to, to - planes * plane, bytes); });
  }
  const uint8_t* from = last.data();
  each_row(0, [&](uint8_t* to) {
    std::memcpy(to, from, bytes);
    from += bytes;
  });
}

}  // namespace

Mix draw_mix(std::span<const MixChoice> choices, Size size, base::Random random) {
  const MixChoice& choice = choose(choices, random);
  Mix out{.kind = choice.kind, .own = draw_beta(choice.alpha, random)};
  if (out.kind == MixKind::kMixUp) return out;
  const double half_share = 0.5 * std::sqrt(1 - out.own);
  const Side across = draw_side(random.below(size.width), half_share, size.width);
  const Side down = draw_side(random.below(size.height), half_share, size.height);
  const uint64_t area = uint64_t{across.length} * down.length;
  out.own = 1 - static_cast<double>(area) / static_cast<double>(uint64_t{size.width} * size.height);
  if (area > 0) out.box = Rect{across.begin, down.begin, across.length, down.length};
  return out;
}

Status mix_images(const Mix& mix, const BatchShape& batch, uint8_t* images) {
  const size_t numbers = size_t{batch.size.width} * batch.size.height * 3;
  if (mix.kind == MixKind::kCutMix) {
    FOREBAY_CHECK(!mix.box || mix.box->inside(batch.size.width, batch.size.height));
    if (mix.box && batch.samples > 0) cut(*mix.box, batch, images);
    return {};
  }
  switch (batch.dtype) {
    case DType::kUint8:
      return base::fail(base::Code::kInvalid,
                        "mix: MixUp needs floating-point numbers, but images are bytes; add "
                        "Normalize, or use CutMix");
    case DType::kFloat32:
      mix_float32(mix.own, batch.samples, numbers, reinterpret_cast<float*>(images));
      break;
    case DType::kBfloat16:
      mix_half<to_bfloat16, from_bfloat16>(mix.own, batch.samples, numbers,
                                           reinterpret_cast<uint16_t*>(images));
      break;
    case DType::kFloat16:
      mix_half<to_float16, from_float16>(mix.own, batch.samples, numbers,
                                         reinterpret_cast<uint16_t*>(images));
      break;
  }
  return {};
}

void mix_labels(const Mix& mix, size_t samples, size_t classes, float* labels) {
  mix_float32(mix.own, samples, classes, labels);
}

}  // namespace forebay::image
