// forebay-train: trains an image classifier on packed datasets. A binary of its own, since it needs
// libtorch (HACKING.md).
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "arguments.h"
#include "base/limits.h"
#include "io/machine.h"
#include "train/run.h"
#include "train/weights.h"

namespace {

using namespace forebay;
using namespace forebay::apps;
using base::Code;
using base::Result;
using base::Status;

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

struct Options {
  std::string dataset;
  std::string validation;
  train::ModelOptions model;
  train::Sgd::Options sgd;
  feed::FeedOptions feed;
  train::RunOptions run;
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> std = {0.229, 0.224, 0.225};
  std::string precision = "auto";
  std::string log;
  std::string init;
  double lr = 0.4;
  double warmup_epochs = 1.5;
  double label_smoothing = 0.1;
  std::string crop;  // empty: by size
  uint32_t crop_padding = 4;
  std::string interpolation = "bilinear";
  bool scaled_decode = false;
  double crop_scale_min = 0.08;
  bool flip = true;
  double erase = 0;
  bool val_flip = false;
  double target_accuracy = 0;
  uint32_t size = 0;    // 0: by the dataset
  uint32_t resize = 0;  // 0: by size
  int threads = 0;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("dataset", o.dataset, "Packed dataset to learn from")->required();
  app.add_option("--val", o.validation, "Packed dataset to measure on after each epoch");
  app.add_option("--model", o.model.name, "resnet9 or resnet18")->capture_default_str();
  app.add_option("--width", o.model.width, "resnet9: half the channels of its first learned layer")
      ->capture_default_str();
  app.add_option("--epochs", o.run.epochs, "0: only measure on --val")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--batch", o.feed.global_batch, "Samples in a step")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--lr", o.lr, "Learning rate after the warm-up")->capture_default_str();
  app.add_option("--momentum", o.sgd.momentum)->capture_default_str()->check(CLI::Range(0.0, 1.0));
  app.add_flag("--nesterov", o.sgd.nesterov, "Nesterov's momentum");
  app.add_option("--weight-decay", o.sgd.weight_decay, "Not on biases and batch norms")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--label-smoothing", o.label_smoothing)
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--warmup", o.warmup_epochs, "Epochs in which the learning rate rises")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_flag("!--no-flip", o.flip, "Do not mirror training images at random");
  app.add_option("--crop", o.crop,
                 "Of training images, at random: padded (the usual up to 64 pixels) or resized")
      ->check(CLI::IsMember({"padded", "resized"}));
  app.add_option("--crop-padding", o.crop_padding, "Pixels on each side, mirrored")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--interpolation", o.interpolation,
                 "How images are resized: bilinear, bicubic (both antialiased) or nearest")
      ->capture_default_str()
      ->check(CLI::IsMember({"bilinear", "bicubic", "nearest"}));
  app.add_flag("--scaled-decode", o.scaled_decode,
               "Decode JPEGs that are to become half as large or less at 1/2, 1/4 or 1/8 of their "
               "size: faster, with other pixels");
  app.add_option("--crop-scale-min", o.crop_scale_min,
                 "Smallest share of an image's area that a resized crop takes")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--erase", o.erase, "Probability that a random part of a training image is erased")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--size", o.size, "Pixels (the first image's up to 64, else 224)")
      ->check(whole_number());
  app.add_option("--resize", o.resize, "Validation: short side before the centre crop")
      ->check(whole_number());
  app.add_option("--val-epochs", o.run.validation_epochs, "Epochs between validations")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--val-flip", o.val_flip,
               "Validation: the mean of the predictions for each image and its mirror image");
  app.add_option("--mean", o.mean, "Of the channels, on a scale of 0 to 1")->expected(3);
  app.add_option("--std", o.std)->expected(3);
  app.add_option("--seed", o.feed.seed)->capture_default_str()->check(whole_number());
  app.add_option("--lanes", o.feed.lanes, "Chunks that a step draws from side by side")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--group-bytes", o.feed.group_bytes, "Bytes of chunks shuffled together in a lane")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--prefetch", o.feed.prefetch, "Batches prepared ahead")->capture_default_str();
  app.add_option("--memory-bytes-max", o.feed.memory_bytes_max,
                 "For chunks and batches of one feed together")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--bad-samples-max", o.feed.bad_samples_max,
                 "Unreadable samples to replace before the run stops")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--precision", o.precision, "auto, bf16 or fp32")->capture_default_str();
  app.add_option("--init", o.init, "First weights: a safetensors file with the model's state_dict");
  app.add_option("--out", o.run.out, "Folder for checkpoints and model.safetensors");
  app.add_flag("--resume", o.run.resume, "Go on from the newest checkpoint in --out");
  app.add_option("--checkpoint-steps", o.run.checkpoint_steps,
                 "Also write one every so many steps (0: at each epoch's end only)")
      ->check(whole_number());
  app.add_option("--threads", o.threads, "PyTorch's (0: the usable cores)")
      ->check(CLI::Range(0, base::kThreadsMax));
  app.add_option("--feed-threads", o.feed.threads, "The loader's (0: the usable cores)")
      ->check(CLI::Range(0, base::kThreadsMax));
  app.add_option("--log", o.log, "File for JSON lines");
  app.add_option("--log-steps", o.run.log_steps, "Steps between progress lines")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--target-accuracy", o.target_accuracy,
                 "Stop once validation reaches it (0 to 1); exit with 3 if it never does")
      ->check(CLI::Range(0.0, 1.0));
}

// A tensor's memory is large and lives for a moment. Left alone, glibc would map fresh pages for it
// at every step and give them back.
void keep_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

// The second Ctrl-C ends the process at once.
void catch_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_asked = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Result<uint32_t> first_image_side(const store::Dataset& dataset) {
  if (dataset.sample_count() == 0) {
    return base::fail(Code::kInvalid, "{}: no samples to learn from", dataset.path());
  }
  const store::Location at = dataset.location(0);
  const std::string path = dataset.chunk_path(at.chunk);
  ASSIGN_OR_RETURN(const auto file, io::posix_file_system().open(path));
  base::ByteVector bytes(at.length);
  RETURN_IF_ERROR(file->read(at.offset, bytes).at(path));
  ASSIGN_OR_RETURN(const image::Encoded source, image::read_header(bytes));
  const image::Size& size = source.size;
  return std::min(size.width, size.height);
}

int64_t class_count(const store::Dataset& dataset) {
  auto classes = static_cast<int64_t>(dataset.schema().classes.size());
  for (uint64_t i = 0; i < dataset.sample_count(); ++i) {
    classes = std::max<int64_t>(classes, int64_t{dataset.location(i).label} + 1);
  }
  return classes;
}

// Fills in what depends on the dataset.
Status settle(const store::Dataset& dataset, Options& o) {
  constexpr uint32_t kSmall = 64;
  constexpr uint32_t kUsual = 224;
  if (o.size == 0) {
    ASSIGN_OR_RETURN(const uint32_t side, first_image_side(dataset));
    o.size = side <= kSmall ? side : kUsual;
  }
  const bool small = o.size <= kSmall;
  if (o.resize == 0) o.resize = small ? o.size : o.size * 8 / 7;
  if (o.crop.empty()) o.crop = small ? "padded" : "resized";
  o.model.classes = class_count(dataset);
  if (o.model.classes == 0) {
    return base::fail(Code::kInvalid,
                      "{}: no sample has a class to learn; pack images in folders by class (also "
                      "inside tar shards), or shards with .cls files",
                      dataset.path());
  }
  o.model.seed = o.feed.seed;
  for (const double number :
       {o.lr, o.sgd.weight_decay, o.sgd.momentum, o.warmup_epochs, o.label_smoothing,
        o.crop_scale_min, o.erase, o.mean[0], o.mean[1], o.mean[2], o.std[0], o.std[1], o.std[2]}) {
    if (!std::isfinite(number)) return {Code::kInvalid, "an option is not a finite number"};
  }
  if (o.lr <= 0) return {Code::kInvalid, "--lr: must be above 0"};
  for (const double std : o.std) {
    if (std <= 0) return {Code::kInvalid, "--std: must be above 0"};
  }
  if (o.target_accuracy > 0 && o.validation.empty()) {
    return {Code::kInvalid, "--target-accuracy needs --val"};
  }
  if (o.resize < o.size) return {Code::kInvalid, "--resize: must be --size or more"};
  return {};
}

image::Interpolation interpolation(const Options& o) {
  if (o.interpolation == "bicubic") return image::Interpolation::kBicubic;
  if (o.interpolation == "nearest") return image::Interpolation::kNearest;
  return image::Interpolation::kBilinear;
}

feed::FeedOptions feed_options(const Options& o, train::Precision precision, bool training) {
  feed::FeedOptions out = o.feed;
  out.shuffle = out.replace_bad = training;
  out.drop_last = training;
  out.transform.size = image::square(o.size);
  out.transform.interpolation = interpolation(o);
  out.transform.scaled_decode = o.scaled_decode;
  out.tensor.layout = image::Layout::kNhwc;
  out.tensor.dtype =
      precision == train::Precision::kBf16 ? image::DType::kBfloat16 : image::DType::kFloat32;
  for (size_t c = 0; c < 3; ++c) {
    out.tensor.mean[c] = static_cast<float>(o.mean[c]);
    out.tensor.std[c] = static_cast<float>(o.std[c]);
  }
  if (training) {
    out.transform.flip = o.flip ? 0.5 : 0;
    out.transform.erasing.probability = o.erase;
    if (o.crop == "padded") {
      const uint32_t padding = o.crop_padding;
      out.transform.crop = image::RandomCrop{.resize = image::ShortSide{o.size},
                                             .padding = {padding, padding, padding, padding},
                                             .border = {.kind = image::BorderKind::kReflect}};
    } else {
      out.transform.crop = image::RandomResizedCrop{.scale_min = o.crop_scale_min};
    }
  } else {
    out.transform.flip = 0;
    out.transform.crop = image::CentreCrop{image::ShortSide{o.resize}};
  }
  return out;
}

// Everything that the weights depend on, for checkpoints.
std::string fingerprint(const Options& o, const store::Dataset& dataset, train::Precision precision,
                        const std::optional<uint32_t>& init) {
  const nlohmann::json all = {{"dataset", base::to_hex(dataset.fingerprint())},
                              {"model", o.model.name},
                              {"width", o.model.width},
                              {"classes", o.model.classes},
                              {"epochs", o.run.epochs},
                              {"batch", o.feed.global_batch},
                              {"lr", o.lr},
                              {"momentum", o.sgd.momentum},
                              {"nesterov", o.sgd.nesterov},
                              {"weight-decay", o.sgd.weight_decay},
                              {"label-smoothing", o.label_smoothing},
                              {"warmup", o.warmup_epochs},
                              {"crop", o.crop},
                              {"crop-padding", o.crop_padding},
                              {"crop-scale-min", o.crop_scale_min},
                              {"interpolation", o.interpolation},
                              {"scaled-decode", o.scaled_decode},
                              {"flip", o.flip},
                              {"erase", o.erase},
                              {"size", o.size},
                              {"mean", o.mean},
                              {"std", o.std},
                              {"seed", o.feed.seed},
                              {"lanes", o.feed.lanes},
                              {"group-bytes", o.feed.group_bytes},
                              {"init", init ? nlohmann::json(*init) : nlohmann::json()},
                              {"precision", precision == train::Precision::kBf16 ? "bf16" : "fp32"},
                              {"threads", at::get_num_threads()}};
  return all.dump();
}

train::Learner::Options learner_options(const Options& o, train::Precision precision,
                                        uint64_t epoch_steps) {
  const auto steps = static_cast<double>(epoch_steps);
  const uint64_t total = o.run.epochs * epoch_steps;
  const auto warmup = std::min(static_cast<uint64_t>(o.warmup_epochs * steps), total);
  return {.precision = precision,
          .sgd = o.sgd,
          .schedule = {.peak = o.lr, .warmup_steps = warmup, .total_steps = total},
          .label_smoothing = o.label_smoothing,
          .evaluate_flipped = o.val_flip};
}

// A class must have the same number in both, or the accuracy says nothing.
Status check_same_classes(const store::Dataset& training, const store::Dataset& validation,
                          int64_t classes) {
  if (class_count(validation) == 0) {
    return base::fail(Code::kInvalid, "{}: no sample has a label to measure with",
                      validation.path());
  }
  const auto& learned = training.schema().classes;
  const auto& measured = validation.schema().classes;
  if (class_count(validation) > classes) {
    return base::fail(Code::kInvalid, "{}: {} classes, but {} has {}", validation.path(),
                      class_count(validation), training.path(), classes);
  }
  if (learned.empty() || measured.empty()) return {};  // numbers without names
  for (size_t i = 0; i < std::max(learned.size(), measured.size()); ++i) {
    const std::string a = i < learned.size() ? learned[i] : "(none)";
    const std::string b = i < measured.size() ? measured[i] : "(none)";
    if (a == b) continue;
    return base::fail(Code::kInvalid,
                      "class {} is \"{}\" in {} and \"{}\" in {}; pack both from folders with the "
                      "same classes (an empty folder keeps a class's number)",
                      i, a, training.path(), b, validation.path());
  }
  return {};
}

struct Feeds {
  std::unique_ptr<feed::Feed> training;
  std::unique_ptr<feed::Feed> validation;
};

Result<Feeds> open_feeds(const Options& o, train::Precision precision,
                         const std::shared_ptr<const store::Dataset>& dataset) {
  const io::FileSystem& fs = io::posix_file_system();
  Feeds feeds;
  ASSIGN_OR_RETURN(feeds.training, feed::Feed::open(fs, dataset, feed_options(o, precision, true)));
  if (o.validation.empty()) return feeds;
  ASSIGN_OR_RETURN(const auto validation, store::Dataset::open(fs, o.validation));
  RETURN_IF_ERROR(check_same_classes(*dataset, *validation, o.model.classes));
  ASSIGN_OR_RETURN(feeds.validation,
                   feed::Feed::open(fs, validation, feed_options(o, precision, false)));
  return feeds;
}

Status report(train::Log& log, const train::Summary& summary) {
  nlohmann::json fields = {{"steps", summary.steps},
                           {"epochs", summary.epochs},
                           {"seconds", summary.seconds},
                           {"wait_share", summary.wait_share},
                           {"bad_samples", summary.bad_samples},
                           {"reached_target", summary.reached_target}};
  std::string top1 = "no --val given";
  if (summary.validation) {
    fields["top1"] = summary.validation->accuracy();
    fields["val_loss"] = summary.validation->loss;
    fields["val_samples"] = summary.validation->samples;
    top1 = fmt::format("top-1 {:.2f} % of {} validation samples",
                       100 * summary.validation->accuracy(), summary.validation->samples);
  }
  if (summary.bad_samples > 0) top1 += fmt::format("; {} bad samples", summary.bad_samples);
  log.say(fmt::format("done: {} epochs, {} steps, {:.1f} s, waiting for data {:.1f} %; {}",
                      summary.epochs, summary.steps, summary.seconds, 100 * summary.wait_share,
                      top1));
  return log.event("summary", fields);
}

Result<train::Summary> run(Options& o, int64_t start_ns) {
  io::FileSystem& fs = io::posix_file_system();
  ASSIGN_OR_RETURN(train::Log log, train::Log::open(fs, o.log));
  ASSIGN_OR_RETURN(const train::Choice choice, train::choose_precision(o.precision));
  ASSIGN_OR_RETURN(const auto dataset, store::Dataset::open(fs, o.dataset));
  RETURN_IF_ERROR(settle(*dataset, o));

  const int64_t torch_ns = io::monotonic_ns();
  at::set_num_threads(o.threads > 0 ? o.threads : io::usable_cores());
  ASSIGN_OR_RETURN(const auto model, train::make_model(o.model));
  if (int64_t{o.size} < model->size_min()) {
    return base::fail(Code::kInvalid, "--size {}: {} takes {} pixels or more", o.size, o.model.name,
                      model->size_min());
  }
  const int64_t torch_start_ns = io::monotonic_ns() - torch_ns;
  ASSIGN_OR_RETURN(const Feeds feeds, open_feeds(o, choice.precision, dataset));
  train::Learner learner(*model, learner_options(o, choice.precision, feeds.training->steps()));

  log.say(fmt::format("{} of {} classes on {} samples of {} pixels, {} threads, {}", o.model.name,
                      o.model.classes, dataset->sample_count(), o.size, at::get_num_threads(),
                      choice.why));
  std::optional<uint32_t> init;  // the file's checksum
  if (!o.init.empty()) {
    ASSIGN_OR_RETURN(init, train::read_weights(fs, o.init, *model));
  }
  o.run.fingerprint = fingerprint(o, *dataset, choice.precision, init);
  RETURN_IF_ERROR(log.event("start", {{"options", nlohmann::json::parse(o.run.fingerprint)}}));
  o.run.global_batch = o.feed.global_batch;
  o.run.stop = &stop_asked;
  if (o.target_accuracy > 0) o.run.target_accuracy = o.target_accuracy;
  o.run.on_first_batch = [&] {
    const double first_ms =
        static_cast<double>(io::monotonic_ns() - start_ns - torch_start_ns) / 1e6;
    const double torch_ms = static_cast<double>(torch_start_ns) / 1e6;
    log.say(fmt::format("first batch after {:.0f} ms, apart from PyTorch's own start of {:.0f} ms",
                        first_ms, torch_ms));
    return log.event("first_batch", {{"first_batch_ms", first_ms}, {"pytorch_start_ms", torch_ms}});
  };
  ASSIGN_OR_RETURN(
      const train::Summary summary,
      train::train(learner, *model, *feeds.training, feeds.validation.get(), fs, log, o.run));
  RETURN_IF_ERROR(report(log, summary));
  return summary;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t start_ns = io::monotonic_ns();
  keep_memory();
  Options options;
  options.run.epochs = 8;
  options.feed.global_batch = 256;
  CLI::App app("Trains an image classifier on datasets made by `forebay pack`.", "forebay-train");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "forebay: train: {}; forebay train --help says more\n", error.what());
    return kExitWrongUsage;
  }
  catch_interrupt();
  try {
    const auto summary = run(options, start_ns);
    if (!summary) {
      fmt::print(stderr, "forebay: train: {}\n", summary.error().message());
      return summary.error().code() == Code::kCancelled ? kExitStopped : kExitFailed;
    }
    const bool missed = options.run.target_accuracy && !summary->reached_target;
    return missed ? kExitNotReached : 0;
  } catch (const std::exception& error) {  // libtorch's own, and no memory
    fmt::print(stderr, "forebay: train: {}\n", error.what());
    return kExitFailed;
  }
}
