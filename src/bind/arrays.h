// NumPy arrays that own memory that the core filled.
#pragma once

#include <nanobind/ndarray.h>

#include <vector>

#include "bind/bind.h"

namespace forebay::bind {

template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
Array<T> to_array(std::vector<T>&& values) {
  auto* const out = new std::vector<T>(std::move(values));
  const nb::capsule owner(out, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array<T>(out->data(), {out->size()}, owner);
}

}  // namespace forebay::bind
