#include "train/sync/strategy_text.h"

#include <concepts>

#include "base/json_fields.h"
#include "train/sync/ako.h"
#include "train/sync/all_reduce.h"
#include "train/sync/pairs.h"
#include "train/sync/parameter_servers.h"

namespace forebay::train {

namespace {

struct AllReduceOptions {};
struct PairsOptions {
  uint64_t seed = 0;
};
constexpr auto fields_of(const AllReduceOptions*) { return base::fields("allreduce"); }
constexpr auto fields_of(const PairsOptions*) { return base::fields("pairs", "seed"); }

}  // namespace

// Some members of these options come from the context and are in no text. So each_field() names all
// members and visits only the others.
constexpr auto fields_of(const Ako::Options*) { return base::fields("ako"); }
constexpr auto fields_of(const ParameterServers::Options*) { return base::fields("ps"); }
constexpr auto fields_of(const LocalSteps::Options*) { return base::fields("local"); }

constexpr const char* name_of(Ako::Of of) {
  switch (of) {
    case Ako::Of::kGradients:
      return "gradients";
    case Ako::Of::kUpdates:
      return "updates";
  }
  return nullptr;
}

template <class Visit>
void each_field(Ako::Options& options, const Visit& visit) {
  auto& [rank, processes, of, staleness, partitions_least, encoding] = options;
  visit("of", of);
  visit("staleness", staleness);
  visit("parts", partitions_least);
  visit("encoding", encoding);
}

template <class Visit>
void each_field(ParameterServers::Options& options, const Visit& visit) {
  auto& [rank, processes, servers, staleness] = options;
  visit("servers", servers);
  visit("staleness", staleness);
}

template <class Visit>
void each_field(LocalSteps::Options& options, const Visit& visit) {
  auto& [processes, floats, steps, fragments, delay, outer_rate, outer_momentum, begins_apart,
         encoding, outer] = options;
  visit("steps", steps);
  visit("fragments", fragments);
  visit("delay", delay);
  visit("outer_rate", outer_rate);
  visit("outer_momentum", outer_momentum);
  visit("begins_apart", begins_apart);
  visit("encoding", encoding);
}

namespace {

using Options = std::variant<AllReduceOptions, Ako::Options, ParameterServers::Options,
                             PairsOptions, LocalSteps::Options>;

// Makes the strategy of each kind of options.
struct Maker {
  const StrategyContext& context;

  base::Result<std::unique_ptr<Strategy>> operator()(const AllReduceOptions&) const {
    return std::make_unique<AllReduce>(context.processes, context.sizes);
  }
  base::Result<std::unique_ptr<Strategy>> operator()(Ako::Options options) const {
    options.rank = context.rank;
    options.processes = context.processes;
    return std::make_unique<Ako>(options, context.weights);
  }
  base::Result<std::unique_ptr<Strategy>> operator()(ParameterServers::Options options) const {
    options.rank = context.rank;
    options.processes = context.processes;
    if (options.servers.size() > context.weights.size()) {
      return base::fail(base::Code::kInvalid,
                        "sync: ps has {} servers, but the model has only {} numbers to share "
                        "between them; give fewer ranks as servers",
                        options.servers.size(), context.weights.size());
    }
    return std::make_unique<ParameterServers>(std::move(options), context.weights);
  }
  base::Result<std::unique_ptr<Strategy>> operator()(const PairsOptions& options) const {
    return std::make_unique<Pairs>(context.rank, context.processes, options.seed, context.weights);
  }
  base::Result<std::unique_ptr<Strategy>> operator()(LocalSteps::Options options) const {
    options.processes = context.processes;
    options.floats = context.weights.size();
    options.outer = context.outer;
    return std::make_unique<LocalSteps>(options, context.weights);
  }
};

}  // namespace

base::Result<std::unique_ptr<Strategy>> make_strategy(std::string_view text,
                                                      const StrategyContext& context) {
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  Options options;
  base::FieldReader reader("strategy");
  reader.read(parsed, &options);
  if (!reader.status().ok()) return tl::unexpected(reader.status());
  return std::visit(Maker{context}, std::move(options));
}

}  // namespace forebay::train
