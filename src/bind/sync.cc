#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "base/limits.h"
#include "bind/bind.h"
#include "io/machine.h"
#include "io/mesh.h"
#include "train/sync/links.h"
#include "train/sync/strategy_text.h"

namespace forebay::bind {
namespace {

using train::Exchange;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

std::span<float> span(const Floats& floats) { return {floats.data(), floats.size()}; }

// A deadline that many seconds from now; infinitely many for none.
int64_t after(double seconds) {
  constexpr double kNsPerSecond = 1e9;
  const double bounded = std::clamp(seconds, 0.0, base::kWaitSecondsMax);
  return io::monotonic_ns() + static_cast<int64_t>(bounded * kNsPerSecond);
}

// What a Python function has raised while a step of this thread waited.
thread_local std::exception_ptr raised_while_waiting;

// Calls a Python function from a thread that has released the interpreter's lock, and lets the
// handlers of signals run.
base::Status call_python(const nb::callable& function, double seconds) {
  const nb::gil_scoped_acquire acquired;
  try {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    function(seconds);
    return {};
  } catch (const nb::python_error&) {
    raised_while_waiting = std::current_exception();
    return {base::Code::kCancelled, "interrupted"};
  }
}

// Like check(), for calls that may have called Python.
void check_waited(const base::Status& status) {
  if (raised_while_waiting) std::rethrow_exception(std::exchange(raised_while_waiting, nullptr));
  check(status);
}

// Calls a Python function that makes an outer optimiser's step. It raises nothing. The exchange
// does not own it, because the exchange frees its strategy without the interpreter's lock.
train::OuterStep outer_step(nb::handle function) {
  return [function](std::span<float> shared, std::span<float> moved, uint64_t begin) {
    const nb::gil_scoped_acquire acquired;
    const auto lent = [](std::span<float> floats) {  // an array with an owner is not copied
      return Numbers(floats.data(), {floats.size()}, nb::none());
    };
    function(lent(shared), lent(moved), begin);
  };
}

void make(Exchange* self, const std::string& strategy, double wait_s, uint32_t rank,
          uint32_t processes, std::vector<uint64_t> sizes, const Floats& gradient,
          const Floats& weights, const nb::callable& while_waiting,
          const std::optional<Floats>& first, nb::handle outer, uint64_t first_step) {
  auto made = unwrap(train::make_strategy(
      strategy, {.rank = rank,
                 .processes = processes,
                 .sizes = std::move(sizes),
                 .weights = span(first.value_or(weights)),
                 .outer = outer.is_none() ? train::OuterStep() : outer_step(outer)}));
  new (self) Exchange(
      std::move(made), io::monotonic_clock(),
      {.rank = rank,
       .processes = processes,
       .wait_s_max = wait_s,
       .while_waiting =
           [while_waiting](double waited_s) { return call_python(while_waiting, waited_s); },
       .first_step = first_step},
      span(gradient), span(weights));
}

nb::dict to_dict(const train::LinkStats& link) {
  nb::dict out;
  out["sent_bytes"] = link.sent_bytes;
  out["received_bytes"] = link.received_bytes;
  out["refused"] = link.refused;
  out["bytes_per_s"] = link.bytes_per_s;
  out["partitions"] = link.partitions;
  out["encoding"] = train::name_of(link.encoding);
  out["lost"] = text(link.lost);
  return out;
}

nb::dict stats(const Exchange& self) {
  train::ExchangeStats stats;
  {
    const WithoutInterpreter released;
    stats = self.stats();
  }
  nb::dict out;
  out["steps"] = stats.steps;
  out["steps_per_s"] = stats.steps_per_s;
  out["waited_s"] = stats.waited_s;
  out["trouble"] = text(stats.trouble);
  nb::list links;
  for (const train::LinkStats& link : stats.links) links.append(to_dict(link));
  out["links"] = links;
  out["reduced_bytes"] = stats.reduced_bytes;
  out["reducing_s"] = stats.reducing_s;
  out["staleness"] = std::vector<uint64_t>(stats.staleness.begin(), stats.staleness.end());
  return out;
}

void set_rules(Exchange& self, const nb::list& rules) {
  std::vector<train::SgdRule> out;
  for (const nb::handle rule : rules) {
    const auto [begin, count, rate, momentum, decay, nesterov] =
        nb::cast<std::tuple<uint64_t, uint64_t, double, double, double, bool>>(rule);
    out.push_back({.range = {.begin = begin, .count = count},
                   .rate = rate,
                   .momentum = momentum,
                   .weight_decay = decay,
                   .nesterov = nesterov});
  }
  const WithoutInterpreter released;
  self.set_rules(std::move(out));
}

// Calls a function of the exchange that may wait, and lets other Python threads run meanwhile.
template <class Call>
auto waiting(const Call& call) {
  const WithoutInterpreter released;
  return call();
}

Numbers array_of(std::vector<float> floats) {
  auto* const owned = new std::vector<float>(std::move(floats));
  const nb::capsule owner(
      owned, [](void* memory) noexcept { delete static_cast<std::vector<float>*>(memory); });
  return Numbers(owned->data(), {owned->size()}, owner);
}

nb::dict kept(const Exchange& self) {
  nb::dict out;
  for (auto& [name, floats] : waiting([&] { return self.kept(); })) {
    out[text(name)] = array_of(std::move(floats));
  }
  return out;
}

// Binds the functions that the training thread calls.
void bind_steps(nb::class_<Exchange>& bound) {
  bound
      .def(
          "gradient_ready",
          [](Exchange& self, uint64_t begin, uint64_t count) {
            waiting([&] { self.gradient_ready({.begin = begin, .count = count}); });
          },
          nb::arg("begin"), nb::arg("count"))
      .def(
          "check_gradient",
          [](const Exchange& self, const std::vector<Floats>& parts) {
            check(waiting([&]() -> base::Status {
              for (const Floats& part : parts) {
                RETURN_IF_ERROR(self.check_gradient(span(part)));
              }
              return {};
            }));
          },
          nb::arg("parts"),
          "Raises ValueError if a gradient is not finite. For exchanges that do not have the "
          "gradient in their own memory.")
      .def("before_update",
           [](Exchange& self) { check_waited(waiting([&] { return self.before_update(); })); })
      .def_prop_ro(
          "wants_weights",
          [](const Exchange& self) { return waiting([&] { return self.wants_weights(); }); },
          "Whether after_update() needs the weights in this step.")
      .def("after_update",
           [](Exchange& self) { check_waited(waiting([&] { return self.after_update(); })); })
      .def(
          "set_rules", &set_rules, nb::arg("rules"),
          "Tells how the optimiser applies gradients. Each rule is (begin, count, rate, momentum, "
          "weight decay, whether the momentum is Nesterov's); together the rules cover all numbers "
          "in order.");
}

// Binds the functions that return weights, and those that save and restore a checkpoint's values.
void bind_weights(nb::class_<Exchange>& bound) {
  bound.def("kept", &kept, "The values that a checkpoint keeps besides the weights, by name.")
      .def(
          "restore",
          [](Exchange& self, const std::string& name, const Floats& floats) {
            check(waiting([&] { return self.restore(name, span(floats)); }));
          },
          nb::arg("name"), nb::arg("floats"))
      .def(
          "shared_weights",
          [](const Exchange& self) {
            return array_of(waiting([&] { return self.shared_weights(); }));
          },
          "The common weights from which each process has continued by itself; equal in all "
          "processes that end at the same step. Empty if the strategy has none.")
      .def(
          "averaged_weights",
          [](const Exchange& self) {
            return array_of(waiting([&] { return self.averaged_weights(); }));
          },
          "The mean of all processes' weights, as far as this process knows it. Empty if the "
          "strategy knows nothing better than this process's own weights.");
}

// Binds the connections of a job's processes.
void bind_mesh(nb::module_& m) {
  nb::class_<io::Mesh>(m, "Mesh", "Connections between all processes of a job.")
      .def(
          "place",
          [](const io::Mesh& self, const std::string& toward, const std::string& interface) {
            auto place = unwrap(waiting([&] { return self.place(toward, interface); }));
            return std::pair(std::move(place.addresses), place.port);
          },
          nb::arg("toward"), nb::arg("interface"),
          "Where other processes reach this one: IP addresses and a port.")
      .def(
          "connect",
          [](io::Mesh& self,
             const std::vector<std::pair<std::vector<std::string>, uint16_t>>& places,
             double seconds) {
            std::vector<io::MeshPlace> all;
            for (const auto& [addresses, port] : places) all.push_back({addresses, port});
            check(waiting([&] { return self.connect(all, after(seconds)); }));
          },
          nb::arg("places"), nb::arg("seconds"))
      .def("lost", &io::Mesh::lost)
      .def("stop", &io::Mesh::stop);
  m.def(
      "listen",
      [](uint32_t rank, uint32_t processes, const nb::bytes& token) {
        auto made = unwrap(io::Mesh::listen({.rank = rank,
                                             .processes = processes,
                                             .token = std::string(token.c_str(), token.size())}));
        return made.release();
      },
      nb::arg("rank"), nb::arg("processes"), nb::arg("token"), nb::rv_policy::take_ownership,
      "Returns a Mesh that listens for the job's other processes.");
}

nb::bytes bytes_of(const base::ByteVector& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

base::Bytes bytes_of(const nb::bytes& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.c_str()), bytes.size()};
}

// Binds the operations in which all processes take part.
void bind_sums(nb::module_& m) {
  using train::Sums;
  nb::class_<Sums>(m, "Sums",
                   "Operations in which all processes of a job take part, in the same order.")
      .def(
          "__init__",
          [](Sums* self, io::Mesh& mesh, const nb::callable& while_waiting) {
            new (self) Sums(mesh, io::Mesh::Channel::kControl, [while_waiting](double waited_s) {
              return call_python(while_waiting, waited_s);
            });
          },
          nb::arg("mesh"), nb::arg("while_waiting"), nb::keep_alive<1, 2>(),
          "`while_waiting`: as for Exchange.")
      .def(
          "add",
          [](Sums& self, const Floats& numbers, double seconds) {
            check_waited(waiting([&] { return self.add(span(numbers), after(seconds)); }));
          },
          nb::arg("numbers"), nb::arg("seconds"))
      .def(
          "gather",
          [](Sums& self, const nb::bytes& own, double seconds) {
            const auto all = waiting([&] { return self.gather(bytes_of(own), after(seconds)); });
            check_waited(base::status_of(all));
            nb::list out;
            for (const auto& one : *all) out.append(bytes_of(one));
            return out;
          },
          nb::arg("own"), nb::arg("seconds"))
      .def("missing", &Sums::missing);
}

// Links whose threads end without the interpreter's lock, because an outer optimiser may need it.
struct BoundLinks {
  explicit BoundLinks(std::unique_ptr<train::Links> started) : links(std::move(started)) {}
  BoundLinks(const BoundLinks&) = delete;
  BoundLinks& operator=(const BoundLinks&) = delete;
  ~BoundLinks() {
    const WithoutInterpreter released;
    links.reset();
  }
  std::unique_ptr<train::Links> links;
};

// Binds the threads of an exchange.
void bind_links(nb::module_& m) {
  nb::class_<BoundLinks>(m, "Links", "The threads that move what an exchange sends and receives.")
      .def(
          "close",
          [](BoundLinks& self, double seconds) {
            return waiting([&] { return self.links->close(after(seconds)); });
          },
          nb::arg("seconds"),
          "Ends the exchange; returns whether all processes have ended theirs. May be repeated.")
      .def("waits_for",
           [](const BoundLinks& self) { return waiting([&] { return self.links->waits_for(); }); });
  m.def(
      "start_links",
      [](Exchange& exchange, io::Mesh& mesh, bool has_sums) {
        return new BoundLinks(unwrap(train::Links::start(exchange, mesh, has_sums)));
      },
      nb::arg("exchange"), nb::arg("mesh"), nb::arg("has_sums"), nb::rv_policy::take_ownership,
      nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(),
      "Returns the running threads of an exchange.");
}

}  // namespace

void bind_sync(nb::module_& m) {
  nb::class_<Exchange> bound(m, "Exchange",
                             "The exchange of one training process with the others of its job.");
  bind_steps(bound);
  bind_weights(bound);
  bind_mesh(m);
  bind_sums(m);
  bind_links(m);
  bound
      .def("__init__", &make, nb::arg("strategy"), nb::arg("wait_s"), nb::arg("rank"),
           nb::arg("processes"), nb::arg("sizes"), nb::arg("gradient"), nb::arg("weights"),
           nb::arg("while_waiting"), nb::arg("first").none() = nb::none(),
           nb::arg("outer").none() = nb::none(), nb::arg("first_step") = 0, nb::keep_alive<1, 7>(),
           nb::keep_alive<1, 8>(), nb::keep_alive<1, 11>(),
           "`strategy`: JSON (src/train/sync/strategy_text.h). `while_waiting`: called about once "
           "a second while a step waits, with the seconds that it has waited. `first`: the initial "
           "weights if they differ from `weights`; the same in all processes. `outer`: makes an "
           "outer optimiser's step, from the shared weights, the gradient and their position; it "
           "raises nothing. `first_step`: how many steps the job has made before; for errors.")
      .def("settle", [](Exchange& self) { waiting([&] { self.settle(); }); })
      .def("release", [](Exchange& self) { waiting([&] { self.release(); }); })
      .def("restart_measuring", [](Exchange& self) { waiting([&] { self.restart_measuring(); }); })
      .def("stats", &stats);
}

}  // namespace forebay::bind
