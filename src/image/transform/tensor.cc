// The rows of TensorWriter. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/transform/tensor.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <hwy/cache_control.h>

#include <bit>
#include <cmath>

#include "image/transform/half.h"
#include "image/transform/normals.h"
#include "image/transform/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A vector of float32 numbers; kLanes is the number of pixels that are converted at once.
using DF = hn::CappedTag<float, 16>;
using D32 = hn::RebindToSigned<DF>;
using D8 = hn::Rebind<uint8_t, DF>;
using D16 = hn::Rebind<uint16_t, DF>;
constexpr DF df;
constexpr D32 d32;
constexpr D8 d8;
constexpr D16 d16;
constexpr size_t kLanes = hn::MaxLanes(df);
static_assert(base::kPlanarPadding >= kLanes);
using V32 = hn::Vec<D32>;
using VF = hn::Vec<DF>;

HWY_INLINE VF normalise(V32 value, const TensorWriter::Formula& f) {
  const VF d = hn::Sub(hn::ConvertTo(df, value), hn::Set(df, f.mean));
  const VF low = hn::MulAdd(d, hn::Set(df, f.scale_low), hn::Set(df, f.mean_low));
  return hn::MulAdd(d, hn::Set(df, f.scale), low);
}

// Converters: the values of one channel of kLanes pixels to a type.
struct ToUint8 {
  using D = D8;
  HWY_INLINE auto operator()(V32 value, size_t) const { return hn::DemoteTo(d8, value); }
};
struct ToFloat32 {
  using D = DF;
  const TensorWriter::Formulas& formulas;
  HWY_INLINE auto operator()(V32 value, size_t channel) const {
    return normalise(value, formulas[channel]);
  }
};
struct ToBfloat16 {
  using D = D16;
  const TensorWriter::Formulas& formulas;
  HWY_INLINE auto operator()(V32 value, size_t channel) const {
    const hn::RebindToUnsigned<D32> du32;
    const auto bits = hn::BitCast(du32, normalise(value, formulas[channel]));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1));
    const auto sum = hn::Add(hn::Add(bits, odd), hn::Set(du32, 0x7fff));
    return hn::DemoteTo(d16, hn::BitCast(d32, hn::ShiftRight<16>(sum)));
  }
};

struct ToFloat16 {
  using D = D16;
  const TensorWriter::Formulas& formulas;
  HWY_INLINE auto operator()(V32 value, size_t channel) const {
    const hn::Rebind<hwy::float16_t, DF> df16;
    return hn::BitCast(d16, hn::DemoteTo(df16, normalise(value, formulas[channel])));
  }
};

// Samples that would fill much of the cache are written past it. The reader of a batch of such
// samples finds it in memory anyway, and memory that is completely overwritten need not be read
// first.
constexpr size_t kStreamedFrom = 256 << 10;  // bytes

template <class Out>
HWY_INLINE bool may_stream(Size size, const std::array<Out*, 3>& planes) {
  constexpr size_t kBytes =
      kLanes * sizeof(Out);  // bytes written at once; fewer than 16 cannot be streamed
  const size_t plane = size_t{size.width} * size.height * sizeof(Out);
  return kBytes >= 16 && 3 * plane >= kStreamedFrom && size.width % kLanes == 0 &&
         reinterpret_cast<uintptr_t>(planes[0]) % kBytes == 0;
}

// How values are laid out.
enum Order : uint8_t {
  kPlanes,
  kStreamedPlanes,  // to memory, past the caches; rows begin at whole vectors
  kInterleaved,
};

// Writes kLanes pixels from `from` on to `out`: to three planes, or interleaved at out[0].
template <bool kFlip, Order kOrder, class Convert, class Out>
HWY_INLINE void write_lanes(const PlanarRow& row, size_t from, const Convert& convert,
                            const std::array<Out*, 3>& out, size_t at) {
  hn::Vec<typename Convert::D> values[3];
  for (size_t c = 0; c < 3; ++c) {
    V32 value = hn::PromoteTo(d32, hn::LoadU(d8, row[c] + from));
    if constexpr (kFlip) value = hn::Reverse(d32, value);
    values[c] = convert(value, c);
  }
  const typename Convert::D d;
  if constexpr (kOrder == kInterleaved) {
    hn::StoreInterleaved3(values[0], values[1], values[2], d, out[0] + 3 * at);
  } else {
    for (size_t c = 0; c < 3; ++c) {
      kOrder == kPlanes ? hn::StoreU(values[c], d, out[c] + at)
                        : hn::Stream(values[c], d, out[c] + at);
    }
  }
}

template <bool kFlip, Order kOrder, class Convert, class Out>
HWY_INLINE void write_lanes_of_row(const PlanarRow& row, size_t width, const Convert& convert,
                                   const std::array<Out*, 3>& out) {
  size_t at = 0;
  for (; at + kLanes <= width; at += kLanes) {
    const size_t from = kFlip ? width - kLanes - at : at;
    write_lanes<kFlip, kOrder>(row, from, convert, out, at);
  }
  if (at == width) return;
  const size_t rest = width - at;
  constexpr bool kPlanar = kOrder != kInterleaved;
  std::array<Out, 3 * kLanes> made;
  // The rest of a flipped row is its beginning, and comes out at the end of the vector.
  const size_t skipped = kFlip ? kLanes - rest : 0;
  const std::array<Out*, 3> to{made.data(), made.data() + kLanes, made.data() + 2 * kLanes};
  write_lanes<kFlip, kPlanar ? kPlanes : kInterleaved>(row, kFlip ? 0 : at, convert, to, 0);
  for (size_t c = 0; kPlanar && c < 3; ++c) {
    std::memcpy(out[c] + at, to[c] + skipped, rest * sizeof(Out));
  }
  if (!kPlanar) std::memcpy(out[0] + 3 * at, to[0] + 3 * skipped, rest * 3 * sizeof(Out));
}

template <Order kOrder, class Out, class Convert>
HWY_INLINE void write_in_order(const PlanarRow& row, const TensorWriter::RowTarget& place,
                               const Convert& convert, const std::array<Out*, 3>& out) {
  const size_t width = place.size.width;
  place.flip ? write_lanes_of_row<true, kOrder>(row, width, convert, out)
             : write_lanes_of_row<false, kOrder>(row, width, convert, out);
}

template <class Out, class Convert>
HWY_INLINE void write_as(const PlanarRow& row, const TensorWriter::RowTarget& place,
                         const Convert& convert, uint8_t* sample) {
  const std::array<Out*, 3> out = place.in<Out>(sample);
  if (!place.planar) {
    write_in_order<kInterleaved>(row, place, convert, out);
  } else if (may_stream(place.size, out)) {
    write_in_order<kStreamedPlanes>(row, place, convert, out);
  } else {
    write_in_order<kPlanes>(row, place, convert, out);
  }
}

void write_uint8(const PlanarRow& row, const TensorWriter::RowTarget& place, uint8_t* sample) {
  write_as<uint8_t>(row, place, ToUint8{}, sample);
}
void write_float32(const PlanarRow& row, const TensorWriter::RowTarget& place,
                   const TensorWriter::Formulas& formulas, uint8_t* sample) {
  write_as<float>(row, place, ToFloat32{formulas}, sample);
}
void write_bfloat16(const PlanarRow& row, const TensorWriter::RowTarget& place,
                    const TensorWriter::Formulas& formulas, uint8_t* sample) {
  write_as<uint16_t>(row, place, ToBfloat16{formulas}, sample);
}
void write_float16(const PlanarRow& row, const TensorWriter::RowTarget& place,
                   const TensorWriter::Formulas& formulas, uint8_t* sample) {
  write_as<uint16_t>(row, place, ToFloat16{formulas}, sample);
}

// Computes what `formula` makes of each byte.
void normalise_bytes(const TensorWriter::Formula& formula, float* to) {
  for (size_t value = 0; value < 256; value += kLanes) {
    hn::StoreU(normalise(hn::Iota(d32, static_cast<int32_t>(value)), formula), df, to + value);
  }
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(write_uint8);
HWY_EXPORT(write_float32);
HWY_EXPORT(write_bfloat16);
HWY_EXPORT(write_float16);
HWY_EXPORT(normalise_bytes);

namespace {

TensorWriter::Formula make_formula(double mean, double std) {
  // v - mean is exact when the mean has few fractional bits.
  constexpr double kMeanSteps = 1 << 15;
  TensorWriter::Formula out;
  const double scale = 1 / (255 * std);
  out.mean = static_cast<float>(std::round(255 * mean * kMeanSteps) / kMeanSteps);
  out.mean_low = static_cast<float>((double{out.mean} - 255 * mean) * scale);
  out.scale = static_cast<float>(scale);
  out.scale_low = static_cast<float>(scale - double{out.scale});
  return out;
}

// Writes a row by tables, for when the formulas are not exact.
template <class Out>
void write_by_table(const PlanarRow& row, const TensorWriter::RowTarget& place,
                    const std::array<std::array<Out, 256>, 3>& tables, uint8_t* sample) {
  const std::array<Out*, 3> out = place.in<Out>(sample);
  const size_t width = place.size.width;
  for (size_t x = 0; x < width; ++x) {
    for (size_t c = 0; c < 3; ++c) {
      const Out value = tables[c][row[c][place.flip ? width - 1 - x : x]];
      out[c][place.planar ? x : 3 * x] = value;
    }
  }
}

}  // namespace

size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return 1;
    case DType::kFloat32:
      return 4;
    case DType::kBfloat16:
    case DType::kFloat16:
      return 2;
  }
  return 0;
}

TensorWriter::TensorWriter(const TensorOptions& options) : options_(options) {
  for (size_t channel = 0; channel < 3; ++channel) {
    const double mean = options.mean[channel];
    const double std = options.std[channel];
    formulas_[channel] = make_formula(mean, std);
    for (size_t value = 0; value < 256; ++value) {
      const double exact = (static_cast<double>(value) / 255 - mean) / std;
      float32_[channel][value] = static_cast<float>(exact);
      half_[channel][value] = to_half(float32_[channel][value]);
    }
  }
  exact_ = formula_is_exact();
}

uint16_t TensorWriter::to_half(float value) const {
  return options_.dtype == DType::kFloat16 ? to_float16(value) : to_bfloat16(value);
}

// Checks every byte value on this machine.
bool TensorWriter::formula_is_exact() const {
  for (size_t channel = 0; channel < 3; ++channel) {
    std::array<float, 256> made{};
    HWY_DYNAMIC_DISPATCH(normalise_bytes)(formulas_[channel], made.data());
    // Compares bits, because NaN equals nothing, and 0 has a sign.
    if (std::memcmp(made.data(), float32_[channel].data(), sizeof made) != 0) return false;
  }
  return true;
}

size_t TensorWriter::sample_bytes(Size size) const {
  return size_t{size.width} * size.height * 3 * dtype_bytes(options_.dtype);
}

void TensorWriter::write_row(const PlanarRow& row, uint32_t y, Size size, bool flip,
                             uint8_t* out) const {
  const RowTarget place{y, size, options_.layout == Layout::kNchw, flip};
  switch (options_.dtype) {
    case DType::kUint8:
      return HWY_DYNAMIC_DISPATCH(write_uint8)(row, place, out);
    case DType::kFloat32:
      return exact_ ? HWY_DYNAMIC_DISPATCH(write_float32)(row, place, formulas_, out)
                    : write_by_table(row, place, float32_, out);
    case DType::kBfloat16:
      return exact_ ? HWY_DYNAMIC_DISPATCH(write_bfloat16)(row, place, formulas_, out)
                    : write_by_table(row, place, half_, out);
    case DType::kFloat16:
      return exact_ ? HWY_DYNAMIC_DISPATCH(write_float16)(row, place, formulas_, out)
                    : write_by_table(row, place, half_, out);
  }
}

void TensorWriter::complete() { hwy::FlushStream(); }

void TensorWriter::write(base::Rows& rows, bool flip, uint8_t* out) const {
  const Size size{rows.width(), rows.height()};
  for (uint32_t y = 0; y < size.height; ++y) write_row(rows.row(y), y, size, flip, out);
  complete();
}

// Writes make(channel) to each number of a part, row by row, channel by channel.
template <class Out, class Make>
void TensorWriter::write_part(const Rect& part, Size size, uint8_t* out, const Make& make) const {
  const bool planar = options_.layout == Layout::kNchw;
  const size_t step = planar ? 1 : 3;
  for (uint32_t y = part.y; y < part.y + part.height; ++y) {
    const auto row = RowTarget{y, size, planar, false}.in<Out>(out);
    for (size_t c = 0; c < row.size(); ++c) {
      Out* to = row[c] + part.x * step;
      for (uint32_t x = 0; x < part.width; ++x, to += step) *to = make(c);
    }
  }
}

// Writes make(channel) in the type of the sample.
template <class Make>
void TensorWriter::make_part(const Rect& part, Size size, uint8_t* out, const Make& make) const {
  FOREBAY_CHECK(part.inside(size.width, size.height));
  switch (options_.dtype) {
    case DType::kUint8:
      return write_part<uint8_t>(part, size, out,
                                 [&](size_t c) { return static_cast<uint8_t>(make(c)); });
    case DType::kFloat32:
      return write_part<float>(part, size, out, make);
    case DType::kBfloat16:
    case DType::kFloat16:
      return write_part<uint16_t>(part, size, out, [&](size_t c) { return to_half(make(c)); });
  }
}

void TensorWriter::fill(const Rect& part, Size size, const std::array<float, 3>& values,
                        uint8_t* out) const {
  make_part(part, size, out, [&](size_t channel) { return values[channel]; });
}

std::array<uint32_t, 3 * 256> TensorWriter::numbers() const {
  std::array<uint32_t, 3 * 256> out;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t value = 0; value < 256; ++value) {
      uint32_t& to = out[channel * 256 + value];
      switch (options_.dtype) {
        case DType::kUint8:
          to = static_cast<uint32_t>(value);
          break;
        case DType::kFloat32:
          to = std::bit_cast<uint32_t>(float32_[channel][value]);
          break;
        case DType::kBfloat16:
        case DType::kFloat16:
          to = half_[channel][value];
          break;
      }
    }
  }
  return out;
}

std::array<uint32_t, 3> TensorWriter::numbers_of(const std::array<float, 3>& values) const {
  std::array<uint32_t, 3> out{};
  const Size pixel{1, 1};
  std::array<uint8_t, 3 * sizeof(uint32_t)> bytes{};
  fill({0, 0, 1, 1}, pixel, values, bytes.data());
  const size_t each = dtype_bytes(options_.dtype);
  for (size_t channel = 0; channel < 3; ++channel) {
    std::memcpy(&out[channel], bytes.data() + channel * each, each);
  }
  return out;
}

void TensorWriter::write_noise(const Rect& part, Size size, const base::Random& random,
                               uint8_t* out) const {
  FOREBAY_CHECK(options_.dtype != DType::kUint8);
  Normals normals(random);
  make_part(part, size, out, [&](size_t) { return normals.next(); });
}

}  // namespace forebay::image
#endif  // HWY_ONCE
