#include "train/run/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "base/json_fields.h"

namespace forebay::train {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

// The options that only validation depends on.
constexpr std::array<std::string_view, 4> kMeasuring = {"resize", "val-flip", "val-epochs",
                                                        "target-accuracy"};

struct Range {
  const char* name;
  double value;
  double min;
  double max;
};

Status check_ranges(const Options& o) {
  constexpr double kAny = std::numeric_limits<double>::max();
  for (const Range& range :
       {Range{"momentum", o.momentum, 0, 1}, Range{"weight-decay", o.weight_decay, 0, kAny},
        Range{"warmup", o.warmup_epochs, 0, kAny},
        Range{"label-smoothing", o.label_smoothing, 0, 1},
        Range{"crop-scale-min", o.crop_scale_min, 0, 1}, Range{"erase", o.erase, 0, 1},
        Range{"target-accuracy", o.target_accuracy, 0, 1}}) {
    if (range.value >= range.min && range.value <= range.max) continue;
    if (range.max == kAny) return fail(Code::kInvalid, "--{}: must be 0 or more", range.name);
    return fail(Code::kInvalid, "--{}: must be from {} to {}", range.name, range.min, range.max);
  }
  return {};
}

Status check_choice(const char* name, const std::string& value,
                    const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, value) != choices.end()) return {};
  const std::span first(choices.begin(), choices.end() - 1);
  return fail(Code::kInvalid, "--{} {}: use {} or {}", name, value, fmt::join(first, ", "),
              choices.back());
}

bool all_finite(const Options& o) {
  const auto finite = [](double number) { return std::isfinite(number); };
  return std::ranges::all_of(
             std::initializer_list<double>{o.lr, o.weight_decay, o.momentum, o.warmup_epochs,
                                           o.label_smoothing, o.crop_scale_min, o.erase,
                                           o.target_accuracy},
             finite) &&
         std::ranges::all_of(o.mean, finite) && std::ranges::all_of(o.std, finite);
}

}  // namespace

json to_json(const Options& options) {
  base::FieldWriter writer("training options");
  return writer.write(options);
}

json learning_to_json(const Options& options) {
  json object = to_json(options);
  for (const std::string_view name : kMeasuring) object.erase(std::string(name));
  return object;
}

Options settled(Options options, uint32_t image_side) {
  constexpr uint32_t kSmall = 64;
  constexpr uint32_t kUsual = 224;
  if (options.size == 0) options.size = image_side <= kSmall ? image_side : kUsual;
  const bool small = options.size <= kSmall;
  if (options.resize == 0) options.resize = small ? options.size : options.size * 8 / 7;
  if (options.crop == "auto") options.crop = small ? "padded" : "resized";
  return options;
}

AveragingOptions averaging_options(const Options& options) {
  AveragingOptions out;
  out.kind = options.averaging;
  out.learners = options.learners;
  out.steps = options.averaging_steps;
  out.rate = options.averaging_rate;
  return out;
}

Status check_options(const Options& o) {
  if (!all_finite(o)) return {Code::kInvalid, "an option is not a finite number"};
  if (o.lr <= 0) return {Code::kInvalid, "--lr: must be above 0"};
  if (std::ranges::any_of(o.std, [](double std) { return std <= 0; })) {
    return {Code::kInvalid, "--std: must be above 0"};
  }
  RETURN_IF_ERROR(check_ranges(o));
  RETURN_IF_ERROR(check_choice("model", o.model, {"resnet9", "resnet18"}));
  RETURN_IF_ERROR(check_choice("precision", o.precision, {"auto", "bf16", "fp32"}));
  RETURN_IF_ERROR(check_choice("crop", o.crop, {"auto", "padded", "resized"}));
  RETURN_IF_ERROR(
      check_choice("interpolation", o.interpolation, {"bilinear", "bicubic", "nearest"}));
  if (o.epochs > base::kTrainingEpochsMax)
    return fail(Code::kInvalid, "--epochs: must be {} or less", base::kTrainingEpochsMax);
  if (o.batch == 0) return {Code::kInvalid, "--batch: must be above 0"};
  RETURN_IF_ERROR(check_averaging(averaging_options(o)));
  if (uint64_t{o.batch} * o.learners > base::kBatchMax) {
    return fail(Code::kInvalid,
                "--batch {}: with --learners {} a step has more than {} samples; use a smaller one",
                o.batch, o.learners, base::kBatchMax);
  }
  if (o.val_epochs == 0) return {Code::kInvalid, "--val-epochs: must be above 0"};
  if (o.size > 0 && o.resize > 0 && o.resize < o.size) {
    return {Code::kInvalid, "--resize: must be --size or more"};
  }
  return {};
}

}  // namespace forebay::train
