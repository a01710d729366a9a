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

// Text for people; what is no UTF-8 as \xNN.
nb::str text(const std::string& utf8);
// A name, of a file say, which need not be UTF-8: as os.fsdecode gives it, so that it can be given
// back (name_of).
nb::str name(const std::string& bytes);
std::string name_of(const nb::str& name);

// A Python UserWarning, where the package was called from; a filter may make an exception of it.
void warn(const std::string& message);

void bind_errors(nb::module_& m);
void bind_limits(nb::module_& m);
void bind_decode(nb::module_& m);
void bind_dataset(nb::module_& m);
void bind_transforms(nb::module_& m);
void bind_mix(nb::module_& m);
void bind_order(nb::module_& m);
void bind_feed(nb::module_& m);
void bind_batch_decoder(nb::module_& m);

}  // namespace forebay::bind
