#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"
#include "prep/prep_options.h"

namespace forebay::bind {

void bind_prep(nb::module_& m) {
  nb::class_<prep::PrepOptions>(m, "PrepOptions")
      .def(
          "__init__",
          [](prep::PrepOptions* self, std::vector<std::string> sides, std::string secret,
             const std::string& policy, bool any_order) {
            new (self) prep::PrepOptions{.sides = std::move(sides),
                                         .secret = io::Secret::take(secret),
                                         .policy = unwrap(prep::parse_policy(policy)),
                                         .any_order = any_order};
          },
          nb::arg("sides"), nb::arg("secret"), nb::arg("policy"), nb::arg("any_order"));
  nb::class_<prep::SideStats>(m, "SideStats")
      .def_ro("name", &prep::SideStats::name)
      .def_ro("is_up", &prep::SideStats::is_up)
      .def_ro("trouble", &prep::SideStats::trouble)
      .def_ro("steps", &prep::SideStats::steps)
      .def_ro("late", &prep::SideStats::late)
      .def_ro("checked", &prep::SideStats::checked)
      .def_ro("files", &prep::SideStats::files)
      .def_ro("bytes", &prep::SideStats::bytes)
      .def_ro("step_s", &prep::SideStats::step_s);
  nb::class_<prep::PrepStats>(m, "PrepStats")
      .def_ro("host_steps", &prep::PrepStats::host_steps)
      .def_ro("host_step_s", &prep::PrepStats::host_step_s)
      .def_ro("remade_steps", &prep::PrepStats::remade_steps)
      .def_ro("sides", &prep::PrepStats::sides);
}

}  // namespace forebay::bind
