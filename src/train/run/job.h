// A whole training job, from the names of datasets and files to a trained model. It opens what
// train() (run.h) works on, and reports the result.
#pragma once

#include "prep/host/prep_options.h"
#include "train/run/run.h"
#include "train/run/stage_options.h"

namespace forebay::train {

struct TrainingJob {
  Options options;
  Loading loading;
  std::string device = "auto";  // "auto", "cpu" or "cuda"
  std::string dataset;          // the packed dataset that is learned from
  std::string validation;       // the packed dataset that is measured on; empty for none
  std::string init;             // a safetensors file of first weights; empty for random ones
  std::string log;              // a file for JSON lines; empty for none
  prep::PrepOptions prep;  // prep servers that help with the training batches; none is the default
  // These are RunOptions' members of the same names.
  std::string out;
  bool resume = false;
  uint64_t checkpoint_steps = RunOptions{}.checkpoint_steps;
  uint64_t log_steps = RunOptions{}.log_steps;
  feed::Price price;
  std::shared_ptr<Replicas> replicas = RunOptions{}.replicas;
  const std::atomic<bool>* stop = nullptr;
  // Number of PyTorch's threads; 0 means io::usable_cores().
  int torch_threads = 0;
  // When the process started, on io::monotonic_ns(): the time to the first batch counts from here.
  int64_t start_ns = 0;
};

// Errors: kInvalid for options that make no sense alone, together or for the dataset; otherwise
// those of train() and of opening files. Sets the number of threads for the whole process.
Result<Summary> run_job(io::FileSystem& fs, const TrainingJob& job);

}  // namespace forebay::train
