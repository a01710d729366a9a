// Makes a strategy from its text, which python/forebay/sync/strategies.py writes.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "train/sync/local_steps.h"

namespace forebay::train {

// What a strategy needs to know about its process, in addition to its options.
struct StrategyContext {
  uint32_t rank = 0;
  uint32_t processes = 1;
  std::vector<uint64_t> sizes;     // how many numbers each tensor has, in the order of the weights
  std::span<const float> weights;  // the initial weights
  OuterStep outer = {};            // of local steps, if it is not their own
};

// Makes a strategy from a JSON object with one member, the strategy's name with its options, such
// as {"pairs": {"seed": 0}}. The caller has checked that the values make sense. Errors: kInvalid,
// naming the place, for any other text, also if an option is missing.
base::Result<std::unique_ptr<Strategy>> make_strategy(std::string_view text,
                                                      const StrategyContext& context);

}  // namespace forebay::train
