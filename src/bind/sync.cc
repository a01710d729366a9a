#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"
#include "train/sync/exchange.h"
#include "train/sync/strategy_text.h"

namespace forebay::bind {
namespace {

using train::Exchange;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ByteArray = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Buffer = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;
using Numbers = nb::ndarray<nb::numpy, float, nb::ndim<1>>;

std::span<float> span(const Floats& floats) { return {floats.data(), floats.size()}; }

base::Bytes bytes(const ByteArray& array) { return {array.data(), array.size()}; }

// Returns an array over memory that stays valid until the same thread's next call.
Buffer view(base::Bytes memory, const nb::handle owner) {
  return Buffer(const_cast<uint8_t*>(memory.data()), {memory.size()}, owner);
}

void make(Exchange* self, const std::string& strategy, double wait_s, uint32_t rank,
          uint32_t processes, std::vector<uint64_t> sizes, const Floats& gradient,
          const Floats& weights, const std::optional<Floats>& first) {
  auto made = unwrap(train::make_strategy(strategy, {.rank = rank,
                                                     .processes = processes,
                                                     .sizes = std::move(sizes),
                                                     .weights = span(first.value_or(weights))}));
  new (self) Exchange(std::move(made), io::monotonic_clock(),
                      {.rank = rank, .processes = processes, .wait_s_max = wait_s}, span(gradient),
                      span(weights));
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
           [](Exchange& self) { check(waiting([&] { return self.before_update(); })); })
      .def_prop_ro("wants_weights", &Exchange::wants_weights,
                   "Whether after_update() needs the weights in this step.")
      .def("after_update",
           [](Exchange& self) { check(waiting([&] { return self.after_update(); })); })
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

}  // namespace

void bind_sync(nb::module_& m) {
  nb::class_<Exchange> bound(m, "Exchange",
                             "The exchange of one training process with the others of its job.");
  bind_steps(bound);
  bind_weights(bound);
  bound
      .def("__init__", &make, nb::arg("strategy"), nb::arg("wait_s"), nb::arg("rank"),
           nb::arg("processes"), nb::arg("sizes"), nb::arg("gradient"), nb::arg("weights"),
           nb::arg("first").none() = nb::none(), nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>(),
           "`strategy`: JSON (src/train/sync/strategy_text.h). `first`: the initial weights if "
           "they differ from `weights`; the same in all processes.")
      .def(
          "next",
          [](nb::handle_t<Exchange> self, uint32_t peer) -> std::optional<Buffer> {
            auto& exchange = nb::cast<Exchange&>(self);
            const base::Bytes message = waiting([&] { return exchange.next(peer); });
            if (message.empty()) return std::nullopt;
            return view(message, self);
          },
          nb::arg("peer"),
          "Waits for the next message to this peer and returns its bytes, which stay valid until "
          "the "
          "call after the next one for this peer. None: no more messages follow.")
      .def_prop_ro("message_bytes_max", &Exchange::message_bytes_max)
      .def(
          "received",
          [](Exchange& self, uint32_t peer, const ByteArray& message) {
            return unwrap(waiting([&] { return self.received(peer, bytes(message)); }));
          },
          nb::arg("peer"), nb::arg("message"), "Returns False for the peer's last message.")
      .def(
          "lost",
          [](Exchange& self, uint32_t peer, const std::string& why) {
            waiting([&] { self.lost(peer, why); });
          },
          nb::arg("peer"), nb::arg("why"))
      .def("next_reduction",
           [](nb::handle_t<Exchange> self) -> std::optional<Numbers> {
             auto& exchange = nb::cast<Exchange&>(self);
             const auto numbers = waiting([&] { return exchange.next_reduction(); });
             if (numbers.empty()) return std::nullopt;
             return Numbers(numbers.data(), {numbers.size()}, self);
           })
      .def("reduced", [](Exchange& self) { waiting([&] { self.reduced(); }); })
      .def(
          "fail",
          [](Exchange& self, const std::string& why) {
            waiting([&] { self.fail({base::Code::kUnavailable, why}); });
          },
          nb::arg("why"))
      .def("settle", [](Exchange& self) { waiting([&] { self.settle(); }); })
      .def("release", [](Exchange& self) { waiting([&] { self.release(); }); })
      .def("close", [](Exchange& self) { waiting([&] { self.close(); }); })
      .def("restart_measuring", [](Exchange& self) { waiting([&] { self.restart_measuring(); }); })
      .def("stats", &stats);
}

}  // namespace forebay::bind
