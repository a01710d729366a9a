// All options of a training run that do not depend on the machine or on where its files lie: model,
// optimiser, schedule, augmentation, precision, batch and validation. They are one plain struct, so
// that a run can be described and compared; the command line fills it in.
#pragma once

#include <array>
#include <concepts>
#include <nlohmann/json.hpp>
#include <string>

#include "feed/feed.h"
#include "train/learner/sgd.h"
#include "train/learners/averaging/averaging.h"

namespace forebay::train {

struct Options {
  // Model and its arithmetic.
  std::string model = ModelOptions{}.name;  // "resnet9" or "resnet18"
  int64_t width = ModelOptions{}.width;  // of resnet9: half the channels of its first learned layer
  std::string precision = "auto";        // "auto", "bf16" or "fp32"
  uint64_t seed = feed::FeedOptions{}.seed;

  // Steps and their order.
  uint64_t epochs = 8;
  uint32_t batch = feed::FeedOptions{}.global_batch;
  uint32_t lanes = feed::FeedOptions{}.lanes;
  uint64_t group_bytes = feed::FeedOptions{}.group_bytes;

  // Optimiser, schedule and loss.
  double lr = Schedule{}.peak;  // after the warm-up; above 0
  double warmup_epochs = 1.5;
  double momentum = Sgd::Options{}.momentum;
  bool nesterov = Sgd::Options{}.nesterov;
  double weight_decay = Sgd::Options{}.weight_decay;
  double label_smoothing = 0.1;

  // Several learners on one device, each with a batch of `batch` samples in a step.
  uint32_t learners = AveragingOptions{}.learners;
  std::string averaging = AveragingOptions{}.kind;  // "sma", "sgd" or "local"
  uint64_t averaging_steps = AveragingOptions{}.steps;
  double averaging_rate = AveragingOptions{}.rate;  // 0 means the strategy's default

  // Images. settled() replaces size 0, resize 0 and crop "auto" with values that suit the dataset.
  uint32_t size = 0;                       // pixels on each side
  std::string interpolation = "bilinear";  // "bilinear", "bicubic" or "nearest"
  bool scaled_decode = image::Transform{}.scaled_decode;
  std::array<double, 3> mean = {0.485, 0.456, 0.406};  // by channel, on a scale of 0 to 1
  std::array<double, 3> std = {0.229, 0.224, 0.225};

  // Augmentation of training images.
  std::string crop = "auto";                                     // "auto", "padded" or "resized"
  uint32_t crop_padding = 4;                                     // pixels on each side
  double crop_scale_min = image::RandomResizedCrop{}.scale_min;  // share of the image's area
  bool flip = true;
  double erase = 0;  // probability

  // Validation; the weights do not depend on these options.
  uint32_t resize = 0;  // short side in pixels before the centre crop
  bool val_flip = false;
  uint64_t val_epochs = 1;     // epochs between validations
  double target_accuracy = 0;  // accuracy that ends the run early, from 0 to 1; 0 means never

  bool operator==(const Options&) const = default;
};

// Calls visit(name, option) for each option, with the name of its argument on the command line.
template <class AnyOptions, class Visit>
  requires std::same_as<std::remove_const_t<AnyOptions>, Options>
void each_field(AnyOptions& options, const Visit& visit) {
  auto& [model, width, precision, seed, epochs, batch, lanes, group_bytes, lr, warmup_epochs,
         momentum, nesterov, weight_decay, label_smoothing, learners, averaging, averaging_steps,
         averaging_rate, size, interpolation, scaled_decode, mean, std, crop, crop_padding,
         crop_scale_min, flip, erase, resize, val_flip, val_epochs, target_accuracy] = options;
  visit("model", model);
  visit("width", width);
  visit("precision", precision);
  visit("seed", seed);
  visit("epochs", epochs);
  visit("batch", batch);
  visit("lanes", lanes);
  visit("group-bytes", group_bytes);
  visit("lr", lr);
  visit("warmup", warmup_epochs);
  visit("momentum", momentum);
  visit("nesterov", nesterov);
  visit("weight-decay", weight_decay);
  visit("label-smoothing", label_smoothing);
  visit("learners", learners);
  visit("averaging", averaging);
  visit("averaging-steps", averaging_steps);
  visit("averaging-rate", averaging_rate);
  visit("size", size);
  visit("interpolation", interpolation);
  visit("scaled-decode", scaled_decode);
  visit("mean", mean);
  visit("std", std);
  visit("crop", crop);
  visit("crop-padding", crop_padding);
  visit("crop-scale-min", crop_scale_min);
  visit("flip", flip);
  visit("erase", erase);
  visit("resize", resize);
  visit("val-flip", val_flip);
  visit("val-epochs", val_epochs);
  visit("target-accuracy", target_accuracy);
}

// Returns an object with every option by its name.
nlohmann::json to_json(const Options& options);

// The same with only the options that the weights depend on.
nlohmann::json learning_to_json(const Options& options);

// Fills in size, resize and crop if they are not set, for a dataset whose images have a shorter
// side of about `image_side` pixels.
Options settled(Options options, uint32_t image_side);

// Returns the options by which several learners become one model.
AveragingOptions averaging_options(const Options& options);

// Checks the options, before or after settled(). Errors: kInvalid, naming the option, for a value
// or a combination of values that makes no sense.
Status check_options(const Options& options);

}  // namespace forebay::train
