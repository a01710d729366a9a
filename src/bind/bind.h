// What the Python module is made of. No logic: arguments in, objects and exceptions out.
#pragma once

#include <nanobind/nanobind.h>

#include "base/status.h"
#include "bind/without_interpreter.h"

namespace forebay::bind {

namespace nb = nanobind;

// What `result` holds; an error becomes a Python exception (docs/errors.md).
[[noreturn]] void raise(const base::Status& status);
inline void check(const base::Status& status) {
  if (!status.ok()) raise(status);
}
template <class T>
T unwrap(base::Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

// A Python UserWarning, where the package was called from; a filter may make an exception of it.
void warn(const std::string& message);

void bind_errors(nb::module_& m);
void bind_decode(nb::module_& m);
void bind_dataset(nb::module_& m);
void bind_transforms(nb::module_& m);
void bind_mix(nb::module_& m);
void bind_feed(nb::module_& m);

}  // namespace forebay::bind
