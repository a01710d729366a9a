#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"
#include "prep/host/prep_options.h"

namespace forebay::bind {

void bind_prep(nb::module_& m) {
  nb::class_<prep::PrepOptions>(m, "PrepOptions")
      .def(
          "__init__",
          [](prep::PrepOptions* self, std::vector<std::string> servers, std::string secret,
             const std::string& policy, bool any_order) {
            new (self) prep::PrepOptions{.servers = std::move(servers),
                                         .secret = io::Secret::take(secret),
                                         .policy = unwrap(prep::parse_policy(policy)),
                                         .any_order = any_order};
          },
          nb::arg("servers"), nb::arg("secret"), nb::arg("policy"), nb::arg("any_order"));
  nb::class_<prep::ServerStats>(m, "ServerStats")
      .def_ro("name", &prep::ServerStats::name)
      .def_ro("is_up", &prep::ServerStats::is_up)
      .def_ro("trouble", &prep::ServerStats::trouble)
      .def_ro("steps", &prep::ServerStats::steps)
      .def_ro("late", &prep::ServerStats::late)
      .def_ro("checked", &prep::ServerStats::checked)
      .def_ro("files", &prep::ServerStats::files)
      .def_ro("bytes", &prep::ServerStats::bytes)
      .def_ro("step_s", &prep::ServerStats::step_s);
  nb::class_<prep::PrepStats>(m, "PrepStats").def_ro("servers", &prep::PrepStats::servers);
}

}  // namespace forebay::bind
