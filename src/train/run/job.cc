#include "train/run/job.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include "image/transform/tensor.h"
#include "io/machine.h"
#include "prep/host/assisted_feed.h"
#include "train/learners/several_learners.h"
#include "train/model/device.h"
#include "train/run/classes.h"
#include "train/run/data_reports.h"

namespace forebay::train {

using base::Code;
using base::fail;

namespace {

struct Feeds {
  std::unique_ptr<feed::Feed> training;
  std::unique_ptr<feed::Feed> validation;  // null if this process does not validate
  // The training feed if prep servers help it; else null.
  const prep::AssistedFeed* assisted = nullptr;
  uint64_t sample_bytes = 0;  // of a training sample's tensor
};

// Returns how many threads to use if no number is given: this process's share of the usable cores.
int own_cores(const TrainingJob& job) {
  return std::max(1, io::usable_cores() / static_cast<int>(job.replicas->processes_here()));
}

Result<Feeds> open_feeds(const io::Origin& origin, const TrainingJob& job, const Options& options,
                         Precision precision, int64_t classes,
                         const std::shared_ptr<const store::Dataset>& dataset) {
  Feeds feeds;
  feed::FeedOptions training = training_feed(options, job.loading, precision);
  training.rank = static_cast<int>(job.replicas->rank());
  training.world_size = static_cast<int>(job.replicas->processes());
  training.global_batch *= job.replicas->processes();
  if (training.threads == 0 && job.replicas->exchanges()) training.threads = own_cores(job);
  feeds.sample_bytes = image::TensorWriter(training.tensor).sample_bytes(training.transform.size);
  if (job.prep.servers.empty()) {
    ASSIGN_OR_RETURN(feeds.training, feed::Feed::open(dataset, training));
  } else {
    ASSIGN_OR_RETURN(auto both, prep::AssistedFeed::open(dataset, training, job.prep));
    feeds.assisted = both.get();
    feeds.training = std::move(both);
  }
  if (job.validation.empty() || !job.replicas->is_first()) return feeds;
  ASSIGN_OR_RETURN(const auto validation,
                   store::open_packed(origin, job.validation, {.kept = io::kept_files("")}));
  RETURN_IF_ERROR(check_same_classes(*dataset, *validation, classes));
  ASSIGN_OR_RETURN(feeds.validation,
                   feed::Feed::open(validation, validation_feed(options, job.loading, precision)));
  return feeds;
}

// Fills in the options that depend on the dataset, and checks all of them.
Result<Options> settle(const TrainingJob& job, const store::Dataset& dataset, int64_t classes) {
  uint32_t side = 0;
  if (job.options.size == 0) {
    ASSIGN_OR_RETURN(side, first_image_side(dataset));
  }
  Options options = settled(job.options, side);
  if (classes == 0) {
    return fail(
        Code::kInvalid,
        "{}: no sample has a class to learn, and forebay train learns one class for each "
        "sample, no texts, numbers or several classes; pack images in folders by class "
        "(also inside tar shards), shards with .cls files, or with --labels (docs/labels.md)",
        dataset.path());
  }
  if (classes == 1) {
    return fail(Code::kInvalid,
                "{}: all samples have the same class, so there is nothing to learn; pack images "
                "of two classes or more, in a folder for each",
                dataset.path());
  }
  RETURN_IF_ERROR(check_options(options));
  if (options.target_accuracy > 0 && job.validation.empty()) {
    return fail(Code::kInvalid, "--target-accuracy needs --val");
  }
  return options;
}

// Processes can only exchange weights that are in the processor's memory, and so can learners.
Result<c10::Device> device_of(const TrainingJob& job) {
  if (job.options.learners > 1 && job.replicas->exchanges()) {
    return fail(Code::kUnsupported,
                "--learners {}: several learners train in one process; leave out --sync, or use "
                "--learners 1",
                job.options.learners);
  }
  if (!job.replicas->exchanges()) {
    ASSIGN_OR_RETURN(const c10::Device device, choose_device(job.device));
    if (job.options.learners == 1 || device.is_cpu()) return device;
    return fail(Code::kUnsupported,
                "--learners {}: several learners train on the processor only; use --device cpu, or "
                "--learners 1",
                job.options.learners);
  }
  if (job.device == "cuda") {
    return fail(Code::kUnsupported,
                "--device cuda: --sync trains on the processor only; use --device cpu");
  }
  return choose_device("cpu");
}

ModelOptions model_options(const Options& options, int64_t classes) {
  return {.name = options.model, .width = options.width, .classes = classes, .seed = options.seed};
}

Result<std::unique_ptr<Model>> open_model(const Options& options, int64_t classes,
                                          const c10::Device& device) {
  ASSIGN_OR_RETURN(auto model, make_model(model_options(options, classes)));
  if (int64_t{options.size} < Model::kSideLeast) {
    return fail(Code::kInvalid, "--size {}: {} takes {} pixels or more", options.size,
                options.model, Model::kSideLeast);
  }
  model->to(device);
  return model;
}

// Reads initial weights into the model, if a file is given. Returns the file's CRC32C.
Result<std::optional<uint32_t>> read_init(const io::Origin& origin, const std::string& path,
                                          const Model& model, int64_t classes, Log& log) {
  if (path.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const ReadWeights read, read_weights(origin, path, model, classes));
  if (!read.left_out.empty()) {
    log.say(fmt::format("{} was trained for another number of classes, so {} begin{} anew", path,
                        fmt::join(read.left_out, " and "), read.left_out.size() == 1 ? "s" : ""));
  }
  return read.crc32c;
}

// Makes the learner of a run, or several, which begin with the model's present weights.
Result<std::unique_ptr<Learner>> open_learner(Model& model, const Options& options, int64_t classes,
                                              const SingleLearner::Options& one, Log& log) {
  if (options.learners == 1) return std::make_unique<SingleLearner>(model, one);
  const int threads = at::get_num_threads();
  if (options.learners > static_cast<uint32_t>(threads)) {
    log.warn(fmt::format(
        "--learners {}: PyTorch has {} threads, so learners take turns, which gains no speed; use "
        "--learners {} or fewer, or more --threads",
        options.learners, threads, threads));
  }
  return SeveralLearners::make(
      model, model_options(options, classes),
      {.learner = one, .averaging = averaging_options(options), .threads = threads});
}

RunOptions run_options(const TrainingJob& job, const Options& options) {
  RunOptions run;
  run.epochs = options.epochs;
  run.replicas = job.replicas;
  run.is_measured = !job.validation.empty();
  run.global_batch = uint64_t{options.batch} * options.learners * run.replicas->processes();
  run.out = job.out;
  run.resume = job.resume;
  run.checkpoint_steps = job.checkpoint_steps;
  run.log_steps = job.log_steps;
  run.price = job.price;
  run.validation_epochs = options.val_epochs;
  if (options.target_accuracy > 0) run.target_accuracy = options.target_accuracy;
  run.stop = job.stop;
  return run;
}

Status report_first_batch(Log& log, int64_t ns, int64_t torch_ns) {
  const double first_ms = static_cast<double>(ns) / 1e6;
  const double torch_ms = static_cast<double>(torch_ns) / 1e6;
  log.say(fmt::format("first batch after {:.0f} ms, without PyTorch's own start of {:.0f} ms",
                      first_ms, torch_ms));
  log.event("first_batch", {{"first_batch_ms", first_ms}, {"pytorch_start_ms", torch_ms}});
  return {};
}

Status report(Log& log, const Summary& summary, const PrepReport& prep, uint64_t memory_bytes) {
  nlohmann::json fields = {{"steps", summary.steps},
                           {"epochs", summary.epochs},
                           {"seconds", summary.seconds},
                           {"wait_share", summary.wait_share},
                           {"cpu_s", summary.energy.cpu_s},
                           {"energy_j", summary.energy.joules},
                           {"energy_is_model", summary.energy.is_model},
                           {"memory_bytes", memory_bytes},
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
  prep.add_to(&fields);
  log.say(fmt::format("done: {} epochs, {} steps, {:.1f} s, waiting for data {:.1f} %; {}{}",
                      summary.epochs, summary.steps, summary.seconds, 100 * summary.wait_share,
                      top1, prep.text()));
  log.event("summary", fields);
  return {};
}

}  // namespace

Result<Summary> run_job(io::FileSystem& fs, const TrainingJob& job) {
  ASSIGN_OR_RETURN(Log log, Log::open(fs, job.replicas->is_first() ? job.log : ""));
  if (!job.replicas->is_first()) log.warn_only(job.replicas->rank());
  ASSIGN_OR_RETURN(const c10::Device device, device_of(job));
  ASSIGN_OR_RETURN(const ResolvedPrecision choice,
                   resolve_precision(job.options.precision, device));
  ASSIGN_OR_RETURN(const auto dataset,
                   store::open_packed(fs, job.dataset, {.kept = io::kept_files("")}));
  const int64_t classes = class_count(*dataset);
  ASSIGN_OR_RETURN(const Options options, settle(job, *dataset, classes));

  const int64_t torch_ns = io::monotonic_ns();
  at::set_num_threads(job.torch_threads > 0 ? job.torch_threads : own_cores(job));
  ASSIGN_OR_RETURN(const auto model, open_model(options, classes, device));
  const int64_t torch_start_ns = io::monotonic_ns() - torch_ns;
  ASSIGN_OR_RETURN(const Feeds feeds,
                   open_feeds(fs, job, options, choice.precision, classes, dataset));

  log.say(fmt::format(
      "{} of {} classes on {} samples of {} pixels, {}, {}", options.model, classes,
      dataset->sample_count(), options.size,
      device.is_cpu() ? fmt::format("{} threads", at::get_num_threads()) : "on a GPU", choice.why));
  ASSIGN_OR_RETURN(const std::optional<uint32_t> init,
                   read_init(fs, job.init, *model, classes, log));
  ASSIGN_OR_RETURN(
      const auto learner,
      open_learner(*model, options, classes,
                   learner_options(options, choice.precision, feeds.training->steps()), log));
  if (job.out.empty() && options.epochs > 0) {
    log.warn("without --out, no model and no checkpoint will be saved");
  }
  RunOptions run = run_options(job, options);
  run.takes_ahead = !device.is_cpu();
  if (feeds.assisted != nullptr) run.prep_stats = [&feeds] { return feeds.assisted->prep_stats(); };
  // With several processes most strategies give results that depend on timing anyway, so the number
  // of threads may differ.
  const int threads = job.replicas->exchanges() ? 0 : at::get_num_threads();
  run.fingerprint = checkpoint_options(options, {.dataset = dataset->fingerprint(),
                                                 .classes = classes,
                                                 .device = device,
                                                 .precision = choice.precision,
                                                 .init = init,
                                                 .torch_threads = threads});
  log.event("start", {{"options", nlohmann::json::parse(run.fingerprint)}});
  run.on_first_batch = [&] {
    return report_first_batch(log, io::monotonic_ns() - job.start_ns - torch_start_ns,
                              torch_start_ns);
  };
  ASSIGN_OR_RETURN(const Summary summary,
                   train(*learner, *feeds.training, feeds.validation.get(), fs, log, run));
  const PrepReport prep(run.prep_stats);
  RETURN_IF_ERROR(
      report(log, summary, prep, prep.memory_bytes(feeds.training->stats(), feeds.sample_bytes)));
  return summary;
}

}  // namespace forebay::train
