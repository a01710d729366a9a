// The command line of forebay-train, which trains an image classifier on packed datasets. It is a
// binary of its own because it needs libtorch (HACKING.md). What it does stands in train/job.h.
#include <fmt/format.h>
#include <malloc.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <limits>

#include "arguments.h"
#include "base/limits.h"
#include "io/file_system.h"
#include "io/machine.h"
#include "train/job.h"

namespace {

using namespace forebay;
using namespace forebay::apps;

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// The lists below stand in the order in which --help shows them.
void add_learning(CLI::App& app, train::Job& job) {
  train::Options& o = job.options;
  app.add_option("dataset", job.dataset, "Packed dataset to learn from")->required();
  app.add_option("--val", job.validation, "Packed dataset to measure on after each epoch");
  app.add_option("--model", o.model, "resnet9 or resnet18")->capture_default_str();
  app.add_option("--width", o.width, "resnet9: half the channels of its first learned layer")
      ->capture_default_str();
  app.add_option("--epochs", o.epochs, "0: only measure on --val")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--batch", o.batch, "Samples in a step")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--lr", o.lr, "Learning rate after the warm-up")->capture_default_str();
  app.add_option("--momentum", o.momentum)->capture_default_str()->check(CLI::Range(0.0, 1.0));
  app.add_flag("--nesterov", o.nesterov, "Nesterov's momentum");
  app.add_option("--weight-decay", o.weight_decay, "Not on biases and batch norms")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--label-smoothing", o.label_smoothing)
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--warmup", o.warmup_epochs, "Epochs in which the learning rate rises")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
}

void add_images(CLI::App& app, train::Options& o) {
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
  app.add_option("--val-epochs", o.val_epochs, "Epochs between validations")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--val-flip", o.val_flip,
               "Validation: the mean of the predictions for each image and its mirror image");
  app.add_option("--mean", o.mean, "Of the channels, on a scale of 0 to 1");
  app.add_option("--std", o.std);
}

void add_process(CLI::App& app, train::Job& job) {
  train::Options& o = job.options;
  app.add_option("--seed", o.seed)->capture_default_str()->check(whole_number());
  app.add_option("--lanes", o.lanes, "Chunks that a step draws from side by side")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--group-bytes", o.group_bytes, "Bytes of chunks shuffled together in a lane")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--prefetch", job.loading.prefetch, "Batches prepared ahead")
      ->capture_default_str();
  app.add_option("--memory-bytes-max", job.loading.memory_bytes_max,
                 "For chunks and batches of one feed together")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--bad-samples-max", job.loading.bad_samples_max,
                 "Unreadable samples to replace before the run stops")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--precision", o.precision, "auto, bf16 or fp32")->capture_default_str();
  app.add_option("--init", job.init,
                 "First weights: a safetensors file with the model's state_dict");
  app.add_option("--out", job.out, "Folder for checkpoints and model.safetensors");
  app.add_flag("--resume", job.resume, "Go on from the newest checkpoint in --out");
  app.add_option("--checkpoint-steps", job.checkpoint_steps,
                 "Also write one every so many steps (0: at each epoch's end only)")
      ->check(whole_number());
  app.add_option("--threads", job.torch_threads, "PyTorch's (0: the usable cores)")
      ->check(CLI::Range(0, base::kThreadsMax));
  app.add_option("--feed-threads", job.loading.threads, "The loader's (0: the usable cores)")
      ->check(CLI::Range(0, base::kThreadsMax));
  app.add_option("--log", job.log, "File for JSON lines");
  app.add_option("--log-steps", job.log_steps, "Steps between progress lines")
      ->capture_default_str()
      ->check(whole_number());
  app.add_option("--target-accuracy", o.target_accuracy,
                 "Stop once validation reaches it (0 to 1); exit with 3 if it never does")
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

int run(const train::Job& job) {
  const auto summary = train::run_job(io::posix_file_system(), job);
  if (!summary) {
    fmt::print(stderr, "forebay: train: {}\n", summary.error().message());
    return summary.error().code() == base::Code::kCancelled ? kExitStopped : kExitFailed;
  }
  const bool missed = job.options.target_accuracy > 0 && !summary->reached_target;
  return missed ? kExitNotReached : 0;
}

}  // namespace

int main(int argc, char** argv) {
  train::Job job;
  job.start_ns = io::monotonic_ns();
  job.stop = &stop_asked;
  keep_memory();
  CLI::App app("Trains an image classifier on datasets made by `forebay pack`.", "forebay-train");
  add_learning(app, job);
  add_images(app, job.options);
  add_process(app, job);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "forebay: train: {}; forebay train --help says more\n", error.what());
    return kExitWrongUsage;
  }
  catch_interrupt();
  try {
    return run(job);
  } catch (const std::exception& error) {  // from libtorch, or because memory is short
    fmt::print(stderr, "forebay: train: {}\n", error.what());
    return kExitFailed;
  }
}
