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

// Returns an array with a row for each struct. Structs consist of numbers of type T only.
template <class T, class Struct>
nb::ndarray<nb::numpy, T> to_rows(std::vector<Struct>&& values) {
  auto* const out = new std::vector<Struct>(std::move(values));
  const nb::capsule owner(out,
                          [](void* p) noexcept { delete static_cast<std::vector<Struct>*>(p); });
  return nb::ndarray<nb::numpy, T>(reinterpret_cast<T*>(out->data()),
                                   {out->size(), sizeof(Struct) / sizeof(T)}, owner);
}

}  // namespace forebay::bind
