// The parts of the Python module. They hold no logic: they convert arguments, results and errors.
#pragma once

#include <nanobind/nanobind.h>

#include "base/status.h"
#include "bind/without_interpreter.h"

namespace forebay::bind {

namespace nb = nanobind;

// raise() throws a status as a Python exception (docs/errors.md). check() and unwrap() do so for an
// error; unwrap() returns the value of a result that is ok.
[[noreturn]] void raise(const base::Status& status);
inline void check(const base::Status& status) {
  if (!status.ok()) raise(status);
}
template <class T>
T unwrap(base::Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

// Returns the exception that raise() would throw, as a value.
nb::object exception(const base::Status& status);

// Returns text for people; bytes that are not UTF-8 become \xNN.
nb::str text(const std::string& utf8);
// Returns a name, for example of a file, in the form that os.fsdecode gives; it need not be UTF-8.
// name_of() returns the bytes of such a name.
nb::str name(const std::string& bytes);
std::string name_of(const nb::str& name);

// Issues a Python UserWarning at the place that called the package. Throws if a filter turns the
// warning into an exception.
void warn(const std::string& message);

void bind_errors(nb::module_& m);
void bind_limits(nb::module_& m);
void bind_decode(nb::module_& m);
void bind_cache(nb::module_& m);
void bind_dataset(nb::module_& m);
void bind_transforms(nb::module_& m);  // calls bind_steps()
void bind_steps(nb::module_& m);
void bind_mix(nb::module_& m);
void bind_order(nb::module_& m);
void bind_prep(nb::module_& m);   // before bind_feed
void bind_state(nb::module_& m);  // before bind_feed
void bind_sync(nb::module_& m);
void bind_learners(nb::module_& m);
void bind_explore(nb::module_& m);
void bind_targets(nb::module_& m);
void bind_feed(nb::module_& m);
void bind_batch_decoder(nb::module_& m);

}  // namespace forebay::bind
