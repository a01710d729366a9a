#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"
#include "train/sync/ako.h"
#include "train/sync/all_reduce.h"
#include "train/sync/exchange.h"
#include "train/sync/local_steps.h"
#include "train/sync/pairs.h"
#include "train/sync/parameter_servers.h"

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

// The options are those of python/forebay/sync/strategies.py.
struct StrategyOptions {
  const nb::dict& options;
  uint32_t rank = 0;
  uint32_t processes = 1;
  std::span<const float> weights;

  template <class T>
  T option(const char* name) const {
    return nb::cast<T>(options[name]);
  }
  std::unique_ptr<train::Strategy> make() const;
};

std::optional<train::Encoding> encoding_of(const std::string& name) {
  using train::Encoding;
  for (const auto encoding : {Encoding::kFloat32, Encoding::kInt8, Encoding::kTop}) {
    if (name == train::encoding_name(encoding)) return encoding;
  }
  return std::nullopt;
}

std::unique_ptr<train::Strategy> StrategyOptions::make() const {
  const auto name = option<std::string>("name");
  if (name == "ako") {
    const bool of_updates = option<std::string>("of") == "updates";
    return std::make_unique<train::Ako>(
        train::Ako::Options{
            .rank = rank,
            .processes = processes,
            .of = of_updates ? train::Ako::Of::kUpdates : train::Ako::Of::kGradients,
            .staleness = option<uint64_t>("staleness"),
            .partitions_least = option<uint32_t>("parts"),
            .encoding = encoding_of(option<std::string>("encoding"))},
        weights);
  }
  if (name == "ps") {
    return std::make_unique<train::ParameterServers>(
        train::ParameterServers::Options{.rank = rank,
                                         .processes = processes,
                                         .servers = option<std::vector<uint32_t>>("servers"),
                                         .staleness = option<uint64_t>("staleness")},
        weights);
  }
  if (name == "pairs") {
    return std::make_unique<train::Pairs>(rank, processes, option<uint64_t>("seed"), weights);
  }
  if (name == "local") {
    return std::make_unique<train::LocalSteps>(
        train::LocalSteps::Options{.processes = processes,
                                   .floats = weights.size(),
                                   .steps = option<uint64_t>("steps"),
                                   .fragments = option<uint64_t>("fragments"),
                                   .delay = option<uint64_t>("delay"),
                                   .outer_rate = option<double>("outer_rate"),
                                   .outer_momentum = option<double>("outer_momentum"),
                                   .begins_apart = option<bool>("begins_apart")},
        weights);
  }
  FOREBAY_CHECK(name == "allreduce");
  return std::make_unique<train::AllReduce>(processes, option<std::vector<uint64_t>>("sizes"));
}

void make(Exchange* self, const nb::dict& options, uint32_t rank, uint32_t processes,
          const Floats& gradient, const Floats& weights, const std::optional<Floats>& first) {
  const StrategyOptions chosen{options, rank, processes, span(first.value_or(weights))};
  new (self) Exchange(
      chosen.make(), io::monotonic_clock(),
      {.rank = rank, .processes = processes, .wait_s_max = nb::cast<double>(options["wait_s"])},
      span(gradient), span(weights));
}

nb::dict to_dict(const train::LinkStats& link) {
  nb::dict out;
  out["sent_bytes"] = link.sent_bytes;
  out["received_bytes"] = link.received_bytes;
  out["refused"] = link.refused;
  out["bytes_per_s"] = link.bytes_per_s;
  out["partitions"] = link.partitions;
  out["encoding"] = train::encoding_name(link.encoding);
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
      .def("__init__", &make, nb::arg("options"), nb::arg("rank"), nb::arg("processes"),
           nb::arg("gradient"), nb::arg("weights"), nb::arg("first").none() = nb::none(),
           nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>(),
           "`first`: the initial weights if they differ from `weights`; the same in all processes.")
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
