#include "train/run/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <set>
#include <span>

namespace forebay::train {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

// Calls field(name, member) for each option that the weights depend on.
template <typename AnyOptions, typename Field>
void visit_learning(AnyOptions& o, Field&& field) {
  field("model", o.model);
  field("width", o.width);
  field("precision", o.precision);
  field("seed", o.seed);
  field("epochs", o.epochs);
  field("batch", o.batch);
  field("lanes", o.lanes);
  field("group-bytes", o.group_bytes);
  field("lr", o.lr);
  field("warmup", o.warmup_epochs);
  field("momentum", o.momentum);
  field("nesterov", o.nesterov);
  field("weight-decay", o.weight_decay);
  field("label-smoothing", o.label_smoothing);
  field("size", o.size);
  field("interpolation", o.interpolation);
  field("scaled-decode", o.scaled_decode);
  field("mean", o.mean);
  field("std", o.std);
  field("crop", o.crop);
  field("crop-padding", o.crop_padding);
  field("crop-scale-min", o.crop_scale_min);
  field("flip", o.flip);
  field("erase", o.erase);
}

// Calls field(name, member) for each option that only measuring depends on.
template <typename AnyOptions, typename Field>
void visit_measuring(AnyOptions& o, Field&& field) {
  field("resize", o.resize);
  field("val-flip", o.val_flip);
  field("val-epochs", o.val_epochs);
  field("target-accuracy", o.target_accuracy);
}

// Each read() stores a JSON value and gives "", or says what was expected instead.
std::string read(const json& value, bool* out) {
  if (!value.is_boolean()) return "true or false";
  *out = value.get<bool>();
  return "";
}

std::string read(const json& value, std::string* out) {
  if (!value.is_string()) return "a text";
  *out = value.get<std::string>();
  return "";
}

std::string read(const json& value, double* out) {
  if (!value.is_number()) return "a number";
  *out = value.get<double>();
  return "";
}

template <std::integral Whole>
std::string read(const json& value, Whole* out) {
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<Whole>::max());
  // A value that was built in C++ may be a signed number.
  const bool whole =
      value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
  if (!whole || value.get<uint64_t>() > kLargest) {
    return fmt::format("a whole number from 0 to {}", kLargest);
  }
  *out = static_cast<Whole>(value.get<uint64_t>());
  return "";
}

std::string read(const json& value, std::array<double, 3>* out) {
  const auto is_number = [](const json& one) { return one.is_number(); };
  if (!value.is_array() || value.size() != out->size() || !std::ranges::all_of(value, is_number)) {
    return "a list of 3 numbers";
  }
  *out = value.get<std::array<double, 3>>();
  return "";
}

std::string shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

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

json learning_to_json(const Options& options) {
  json object = json::object();
  visit_learning(options, [&](const char* name, const auto& value) { object[name] = value; });
  return object;
}

json to_json(const Options& options) {
  json object = learning_to_json(options);
  visit_measuring(options, [&](const char* name, const auto& value) { object[name] = value; });
  return object;
}

Result<Options> options_from_json(const json& object) {
  if (!object.is_object()) {
    return fail(Code::kInvalid, "training options: expected an object, found {}", shown(object));
  }
  Options options;
  std::set<std::string> known;
  Status problem;
  const auto field = [&](const char* name, auto& member) {
    known.insert(name);
    const auto found = object.find(name);
    if (found == object.end() || !problem.ok()) return;
    const std::string expected = read(*found, &member);
    if (expected.empty()) return;
    problem = fail(Code::kInvalid, "training option \"{}\": expected {}, found {}", name, expected,
                   shown(*found));
  };
  visit_learning(options, field);
  visit_measuring(options, field);
  RETURN_IF_ERROR(problem);
  for (const auto& [name, unused] : object.items()) {
    if (!known.contains(name)) {
      return fail(Code::kInvalid, "training option \"{}\" is not known; the options are {}", name,
                  fmt::join(known, ", "));
    }
  }
  return options;
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
  if (o.val_epochs == 0) return {Code::kInvalid, "--val-epochs: must be above 0"};
  if (o.size > 0 && o.resize > 0 && o.resize < o.size) {
    return {Code::kInvalid, "--resize: must be --size or more"};
  }
  return {};
}

}  // namespace forebay::train
