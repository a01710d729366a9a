// Packs 16-bit numbers to bytes in the lane order of the processor's own pack instructions.
// Included once for each instruction set of Highway.
#if defined(FOREBAY_BASE_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOREBAY_BASE_PACK_INL_H_
#undef FOREBAY_BASE_PACK_INL_H_
#else
#define FOREBAY_BASE_PACK_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace forebay::base::HWY_NAMESPACE {
namespace {

// Packs two vectors of int16 to bytes with saturation. In each 128-bit block, the bytes of `a` come
// before those of `b`.
template <class D8, class V16>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D8> pack([[maybe_unused]] D8 d8, V16 a, V16 b) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET <= HWY_AVX2
  using V8 = hn::Vec<D8>;
  static_assert(hn::MaxLanes(D8()) >= 16);
#if HWY_TARGET <= HWY_AVX3
  if constexpr (hn::MaxLanes(D8()) == 64) return V8{_mm512_packus_epi16(a.raw, b.raw)};
#endif
  if constexpr (hn::MaxLanes(D8()) == 32) return V8{_mm256_packus_epi16(a.raw, b.raw)};
  if constexpr (hn::MaxLanes(D8()) == 16) return V8{_mm_packus_epi16(a.raw, b.raw)};
#else
  static_assert(hn::MaxLanes(D8()) == 16);
  const hn::Half<D8> half;
  return hn::Combine(d8, hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

}  // namespace
}  // namespace forebay::base::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FOREBAY_BASE_PACK_INL_H_
