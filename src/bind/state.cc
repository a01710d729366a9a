#include "feed/batch/state.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"

namespace forebay::bind {
namespace {

using feed::BadSample;
using feed::FeedState;
using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

void make(FeedState* self, uint64_t epoch, uint64_t position, std::vector<BadSample> bad,
          const Pairs& over) {
  new (self) FeedState{.epoch = epoch, .position = position, .bad = std::move(bad), .over = {}};
  for (const auto& [begin, end] : over) self->over.push_back({begin, end});
}

Pairs over_of(const FeedState& self) {
  Pairs out;
  for (const feed::Positions& over : self.over) out.emplace_back(over.begin, over.end);
  return out;
}

// Values of other types are unequal.
template <class T>
bool is_equal(const T& self, const nb::object& other) {
  return nb::isinstance<T>(other) && self == nb::cast<const T&>(other);
}

}  // namespace

void bind_state(nb::module_& m) {
  nb::class_<BadSample>(m, "BadSample", "A sample that could not be used.")
      .def(nb::init<uint64_t, std::string, std::string, std::string>(), nb::arg("sample"),
           nb::arg("chunk"), nb::arg("key"), nb::arg("reason"))
      .def_ro("sample", &BadSample::sample, "Its number in the dataset.")
      .def_ro("chunk", &BadSample::chunk)
      .def_ro("key", &BadSample::key)
      .def_prop_ro("reason", [](const BadSample& self) { return text(self.reason); })
      .def("__eq__", &is_equal<BadSample>, nb::arg("other").none());
  nb::class_<FeedState>(m, "FeedState",
                        "Where a feed stands in an epoch, after one of its batches.")
      .def("__init__", &make, nb::arg("epoch"), nb::arg("position"), nb::arg("bad"),
           nb::arg("over"))
      .def_ro("epoch", &FeedState::epoch)
      .def_ro("position", &FeedState::position,
              "How many samples of the epoch all ranks have consumed.")
      .def_ro("bad", &FeedState::bad, "This rank's bad samples so far.")
      .def_prop_ro(
          "bad_count", [](const FeedState& self) { return self.bad.size(); },
          "The length of `bad`.")
      .def_prop_ro("over", &over_of,
                   "Batches after `position` that were consumed before their turn, as ascending "
                   "pairs of positions.")
      .def("__eq__", &is_equal<FeedState>, nb::arg("other").none());
}

}  // namespace forebay::bind
