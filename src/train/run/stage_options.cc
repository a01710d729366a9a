#include "train/run/stage_options.h"

#include <algorithm>

namespace forebay::train {

namespace {

image::Interpolation interpolation(const std::string& name) {
  if (name == "bicubic") return image::Interpolation::kBicubic;
  if (name == "nearest") return image::Interpolation::kNearest;
  return image::Interpolation::kBilinear;
}

// Returns the options that both feeds have in common.
feed::FeedOptions common(const Options& options, const Loading& loading, Precision precision) {
  feed::FeedOptions out;
  out.global_batch = options.batch;
  out.seed = options.seed;
  out.lanes = options.lanes;
  out.group_bytes = options.group_bytes;
  out.threads = loading.threads;
  out.prefetch = loading.prefetch;
  out.memory_bytes_max = loading.memory_bytes_max;
  out.bad_samples_max = loading.bad_samples_max;
  out.transform.size = image::square(options.size);
  out.transform.interpolation = interpolation(options.interpolation);
  out.transform.scaled_decode = options.scaled_decode;
  out.tensor.layout = image::Layout::kNhwc;
  out.tensor.dtype =
      precision == Precision::kBf16 ? image::DType::kBfloat16 : image::DType::kFloat32;
  for (size_t c = 0; c < options.mean.size(); ++c) {
    out.tensor.mean[c] = static_cast<float>(options.mean[c]);
    out.tensor.std[c] = static_cast<float>(options.std[c]);
  }
  return out;
}

}  // namespace

feed::FeedOptions training_feed(const Options& options, const Loading& loading,
                                Precision precision) {
  feed::FeedOptions out = common(options, loading, precision);
  out.global_batch = options.batch * options.learners;
  out.order = feed::Shuffled{};
  out.replace_bad = out.drop_last = true;
  out.transform.flip = options.flip ? 0.5 : 0;
  out.transform.erasing.probability = options.erase;
  if (options.crop == "padded") {
    const uint32_t padding = options.crop_padding;
    out.transform.crop = image::RandomCrop{.resize = image::ShortSide{options.size},
                                           .padding = {padding, padding, padding, padding},
                                           .border = {.kind = image::BorderKind::kReflect}};
  } else {
    out.transform.crop = image::RandomResizedCrop{.scale_min = options.crop_scale_min};
  }
  return out;
}

feed::FeedOptions validation_feed(const Options& options, const Loading& loading,
                                  Precision precision) {
  feed::FeedOptions out = common(options, loading, precision);
  out.order = feed::Stored{};
  out.replace_bad = out.drop_last = false;
  out.transform.flip = 0;
  out.transform.crop = image::CentreCrop{image::ShortSide{options.resize}};
  return out;
}

SingleLearner::Options learner_options(const Options& options, Precision precision,
                                       uint64_t epoch_steps) {
  const uint64_t total = options.epochs * epoch_steps;
  const double warmup = options.warmup_epochs * static_cast<double>(epoch_steps);
  return {.precision = precision,
          .sgd = {.momentum = options.momentum,
                  .nesterov = options.nesterov,
                  .weight_decay = options.weight_decay},
          .schedule = {.peak = options.lr,
                       .warmup_steps = std::min(static_cast<uint64_t>(warmup), total),
                       .total_steps = total},
          .label_smoothing = options.label_smoothing,
          .evaluate_flipped = options.val_flip};
}

std::string checkpoint_options(const Options& options, const Circumstances& circumstances) {
  nlohmann::json all = learning_to_json(options);
  if (options.learners == 1) {
    for (const char* name : {"learners", "averaging", "averaging-steps", "averaging-rate"}) {
      all.erase(name);
    }
  }
  all["precision"] = circumstances.precision == Precision::kBf16 ? "bf16" : "fp32";
  all["dataset"] = base::to_hex(circumstances.dataset);
  all["classes"] = circumstances.classes;
  all["init"] = circumstances.init ? nlohmann::json(*circumstances.init) : nlohmann::json();
  all["threads"] = circumstances.torch_threads;
  if (!circumstances.device.is_cpu()) all["device"] = "cuda";
  return all.dump();
}

}  // namespace forebay::train
