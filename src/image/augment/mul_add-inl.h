// a * b + c, rounded once, for vectors of float32 on every instruction set.
#if defined(FOREBAY_IMAGE_AUGMENT_MUL_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOREBAY_IMAGE_AUGMENT_MUL_ADD_INL_H_
#undef FOREBAY_IMAGE_AUGMENT_MUL_ADD_INL_H_
#else
#define FOREBAY_IMAGE_AUGMENT_MUL_ADD_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V mul_add(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hwy::HWY_NAMESPACE::MulAdd(a, b, c);
#else
  // The product is exact in double, and a sum that is rounded twice differs hardly ever.
  namespace hn = hwy::HWY_NAMESPACE;
  HWY_ALIGN float x[hn::MaxLanes(d)];
  HWY_ALIGN float y[hn::MaxLanes(d)];
  HWY_ALIGN float z[hn::MaxLanes(d)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    z[i] = static_cast<float>(double{x[i]} * double{y[i]} + double{z[i]});
  }
  return hn::Load(d, z);
#endif
}

}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
