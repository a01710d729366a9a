// Turns the options of a run into the options of its feeds and its learner, and into the text by
// which a checkpoint recognises its run.
#pragma once

#include "train/learner/single_learner.h"
#include "train/run/options.h"

namespace forebay::train {

// Threads and memory for loading; the samples and their order do not depend on them.
struct Loading {
  int threads = feed::FeedOptions{}.threads;    // 0 means io::usable_cores()
  int prefetch = feed::FeedOptions{}.prefetch;  // batches prepared ahead
  // The most memory for the chunks and batches of one feed.
  uint64_t memory_bytes_max = feed::FeedOptions{}.memory_bytes_max;
  // How many unreadable samples are replaced before the run stops.
  uint64_t bad_samples_max = feed::FeedOptions{}.bad_samples_max;
};

// Returns the options of the training feed: shuffled, augmented, in whole batches of all learners
// together. settled() must have filled in `options`.
feed::FeedOptions training_feed(const Options& options, const Loading& loading,
                                Precision precision);

// Returns the options of the validation feed: centre crops in storage order, each sample once.
feed::FeedOptions validation_feed(const Options& options, const Loading& loading,
                                  Precision precision);

// Returns the options of the learner. `epoch_steps` is the number of steps in an epoch of the
// training feed.
SingleLearner::Options learner_options(const Options& options, Precision precision,
                                       uint64_t epoch_steps);

// What the weights depend on in addition to the options.
struct Circumstances {
  base::Sha256 dataset = {};  // the dataset's fingerprint
  int64_t classes = 0;
  c10::Device device = c10::Device(at::kCPU);
  Precision precision = Precision::kFp32;  // the type that is used, after "auto" was resolved
  std::optional<uint32_t> init = {};       // CRC32C of the file of initial weights
  int torch_threads = 1;
};

// Returns the text for Progress::options (checkpoint.h): a flat JSON object of everything that the
// weights depend on. The options of several learners are in it only if there are several.
std::string checkpoint_options(const Options& options, const Circumstances& circumstances);

}  // namespace forebay::train
