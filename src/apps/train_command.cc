#include "train_command.h"

#include <fmt/format.h>
#include <malloc.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "arguments.h"
#include "base/limits.h"
#include "io/machine.h"
#include "io/secret_file.h"
#include "storage_options.h"
#include "train/run/job.h"

namespace {

using namespace forebay;
using namespace forebay::apps;

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// --help shows the options in the order of the lists below.
void add_learning(CLI::App& app, train::TrainingJob& job) {
  train::Options& o = job.options;
  app.add_option("dataset", job.dataset, "Packed dataset to learn from")->required();
  app.add_option("--val", job.validation, "Packed dataset to measure on after each epoch");
  app.add_option("--model", o.model, "resnet9 or resnet18")->capture_default_str();
  app.add_option("--width", o.width, "For resnet9: half the channels of its first learned layer")
      ->capture_default_str();
  app.add_option("--epochs", o.epochs, "Number of epochs; 0: only measure on --val")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{0}, base::kTrainingEpochsMax));
  app.add_option("--batch", o.batch, "Samples in a step, for each learner")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--lr", o.lr, "Learning rate after the warm-up")->capture_default_str();
  app.add_option("--momentum", o.momentum, "Momentum of the optimiser, which is SGD")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--nesterov", o.nesterov, "Use Nesterov's momentum");
  app.add_option("--weight-decay", o.weight_decay, "Weight decay; biases and batch norms have none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--label-smoothing", o.label_smoothing,
                 "Share of each label that is spread over all classes")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--learners", o.learners,
                 "Number of learners, each with a model of its own and --batch samples in a step, "
                 "on the cores of this machine")
      ->capture_default_str()
      ->check(CLI::Range(uint32_t{1}, base::kLearnersMax));
  app.add_option("--averaging", o.averaging,
                 "How several learners become one model: sma (synchronous model averaging), sgd "
                 "(the mean of their gradients) or local (the mean of their weights)")
      ->capture_default_str()
      ->check(CLI::IsMember({"sma", "sgd", "local"}));
  app.add_option("--averaging-steps", o.averaging_steps,
                 "Number of steps from one averaging of several learners to the next")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, base::kAveragingStepsMax));
  app.add_option("--averaging-rate", o.averaging_rate,
                 "For sma: share of the way to the central model that a learner goes in an "
                 "averaging (0: one by the number of learners)");
  app.add_option("--warmup", o.warmup_epochs, "Number of epochs in which the learning rate rises")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
}

void add_images(CLI::App& app, train::Options& o) {
  app.add_flag("!--no-flip", o.flip, "Do not mirror training images at random");
  app.add_option(
         "--crop", o.crop,
         "How training images are cropped at random: padded (the default for sizes up to 64 "
         "pixels) or resized (the default above)")
      ->check(CLI::IsMember({"padded", "resized"}));
  app.add_option("--crop-padding", o.crop_padding,
                 "Mirrored pixels that a padded crop adds on each side")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--interpolation", o.interpolation,
                 "How images are resized: bilinear, bicubic (both antialiased) or nearest")
      ->capture_default_str()
      ->check(CLI::IsMember({"bilinear", "bicubic", "nearest"}));
  app.add_flag(
      "--scaled-decode", o.scaled_decode,
      "Decode JPEGs that are shrunk to half or less at 1/2, 1/4 or 1/8 of their size, which "
      "is faster but changes pixels");
  app.add_option("--crop-scale-min", o.crop_scale_min,
                 "Smallest share of an image's area that a resized crop takes")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--erase", o.erase, "Probability that a random part of a training image is erased")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--size", o.size,
                 "Side of the model's images in pixels (default: the first image's shorter side if "
                 "it is at most 64, else 224)")
      ->check(whole_number());
  app.add_option("--resize", o.resize,
                 "For validation: pixels of an image's shorter side before the centre crop")
      ->check(whole_number());
  app.add_option("--val-epochs", o.val_epochs, "Number of epochs from one validation to the next")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, base::kTrainingEpochsMax));
  app.add_flag("--val-flip", o.val_flip,
               "For validation: average the predictions for each image and its mirror image");
  app.add_option("--mean", o.mean, "Mean of each channel, on a scale of 0 to 1")
      ->type_name("R G B");
  app.add_option("--std", o.std, "Standard deviation of each channel, on the same scale")
      ->type_name("R G B");
}

void add_process(CLI::App& app, train::TrainingJob& job) {
  train::Options& o = job.options;
  app.add_option("--seed", o.seed, "Seed of the initial weights, the order and the augmentation")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--lanes", o.lanes, "Number of lanes of chunks from which samples come in turn")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--group-bytes", o.group_bytes,
                 "Bytes of chunks that are shuffled together in a lane")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--prefetch", job.loading.prefetch, "Number of batches that are prepared ahead")
      ->capture_default_str();
  app.add_option("--memory-bytes-max", job.loading.memory_bytes_max,
                 "Most bytes of memory for the chunks and batches of one feed")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--bad-samples-max", job.loading.bad_samples_max,
                 "How many unreadable samples are replaced before the run stops")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--precision", o.precision, "Number type of the computation: auto, bf16 or fp32")
      ->capture_default_str();
  app.add_option(
         "--device", job.device,
         "Where the model computes: cpu, cuda (the first GPU), or auto, which is a GPU if there is "
         "one; with --sync always the CPU")
      ->capture_default_str();
  app.add_option("--init", job.init,
                 "Safetensors file with the initial weights: a state_dict of the model");
  app.add_option("--out", job.out, "Folder for checkpoints and model.safetensors");
  app.add_flag("--resume", job.resume,
               "Continue from the newest checkpoint in --out, whichever process wrote it");
  app.add_option(
         "--checkpoint-steps", job.checkpoint_steps,
         "Steps between additional checkpoints within an epoch (0: one after each epoch only)")
      ->check(whole_number());
  app.add_option("--threads", job.torch_threads, "PyTorch's threads (0: the usable cores)")
      ->check(CLI::Range(0, base::kThreadsMax));
  app.add_option("--feed-threads", job.loading.threads,
                 "The loader's threads (0: the usable cores)")
      ->check(CLI::Range(0, base::kThreadsMax));
  app.add_option("--log", job.log, "File to which the run's events are appended as JSON lines");
  app.add_option("--log-steps", job.log_steps, "Number of steps from one progress line to the next")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--price-per-1000-requests", job.price.per_1000_requests,
                 "Price of 1000 requests to the object store of the training data; progress lines "
                 "then show the cost so far")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--price-per-gb", job.price.per_gb, "Price of 10^9 bytes that the store sends")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--target-accuracy", o.target_accuracy,
         "Stop once validation reaches this accuracy (0 to 1); exit with 3 if it never does")
      ->check(CLI::Range(0.0, 1.0));
}

// A tensor's memory is large and lives only for a moment. By default glibc would map fresh pages
// for it at every step and give them back.
void keep_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

// The first signal asks for a clean stop; the second one ends the process at once.
void catch_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_asked = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

base::Result<io::Secret> secret_of_prep_servers(const std::string& file) {
  const char* const given = std::getenv("FOREBAY_PREP_SECRET");
  if (file.empty()) return io::Secret(given == nullptr ? "" : given);
  auto secret = io::read_secret_file(file);
  if (!secret) return tl::unexpected(secret.error().at("--prep-secret-file"));
  return secret;
}

int run(const train::TrainingJob& job, const StorageArguments& storage) {
  io::AnyOrigin everywhere = origin_of(storage);
  const auto summary = train::run_job(everywhere, job);
  if (!summary) {
    fmt::print(stderr, "forebay: train: {}\n", summary.error().message());
    return summary.error().code() == base::Code::kCancelled ? kExitStopped : kExitFailed;
  }
  const bool missed = job.options.target_accuracy > 0 && !summary->reached_target;
  return missed ? kExitNotReached : 0;
}

}  // namespace

int apps::train_command(int argc, char** argv, std::shared_ptr<train::Replicas> replicas) {
  train::TrainingJob job;
  job.start_ns = io::monotonic_ns();
  job.stop = &stop_asked;
  job.replicas = std::move(replicas);
  keep_memory();
  CLI::App app("Trains an image classifier on datasets made by `forebay pack`.", "forebay train");
  add_learning(app, job);
  add_images(app, job.options);
  add_process(app, job);
  std::string strategy;
  app.add_option("--sync", strategy,
                 "Train in all processes that torchrun started, each with --batch samples per "
                 "step, and synchronise them by this strategy: auto, allreduce, ako, pairs or "
                 "local");
  app.add_option("--prep", job.prep.servers,
                 "Address of a prep server (`forebay prep`) that prepares a share of the batches: "
                 "https://HOST:PORT; several may be given")
      ->type_name("URL");
  std::string policy = "interleave";
  app.add_option(
         "--prep-policy", policy,
         "Which batches prep servers prepare: interleave (the default), or mte or wrr, which "
         "change the order of the batches in an epoch")
      ->check(CLI::IsMember({"interleave", "mte", "wrr"}));
  std::string secret_file;
  app.add_option("--prep-secret-file", secret_file,
                 "A file with the prep servers' secret (default: FOREBAY_PREP_SECRET's value)");
  StorageArguments storage;
  add_storage_option(app, &storage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "forebay: train: {}; forebay train --help says more\n", error.what());
    return kExitWrongUsage;
  }
  if (!strategy.empty() && !job.replicas->exchanges()) {
    fmt::print(stderr,
               "forebay: train: --sync needs `forebay train`, which starts Python for it\n");
    return kExitWrongUsage;
  }
  const char* const processes = std::getenv("WORLD_SIZE");
  if (strategy.empty() && processes != nullptr && std::atoi(processes) > 1) {
    fmt::print(stderr,
               "forebay: train: a launcher has started {} processes, and each would train the same "
               "model by itself; add --sync auto, or start one process (WORLD_SIZE is {})\n",
               processes, processes);
    return kExitWrongUsage;
  }
  const auto secret = secret_of_prep_servers(secret_file);
  if (!secret) {
    fmt::print(stderr, "forebay: train: {}\n", secret.error().message());
    return kExitFailed;
  }
  job.prep.secret = *secret;
  job.prep.policy = prep::parse_policy(policy).value();
  catch_interrupt();
  try {
    return run(job, storage);
  } catch (const std::exception& error) {  // thrown by libtorch, or because memory is short
    fmt::print(stderr, "forebay: train: {}\n", error.what());
    return kExitFailed;
  }
}
