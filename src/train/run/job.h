// A whole training job, from the names of datasets and files to a trained model. It opens the
// datasets, feeds and model for train() (run.h), and reports the result.
#pragma once

#include "prep/host/prep_options.h"
#include "train/run/run.h"
#include "train/run/stage_options.h"

namespace forebay::train {

struct TrainingJob {
  Options options;
  Loading loading;
  std::string device = "auto";  // "auto", "cpu" or "cuda"
  std::string dataset;          // the packed dataset to learn from
  std::string validation;       // the packed dataset for validation; empty for none
  std::string init;             // a safetensors file of initial weights; empty for random weights
  std::string log;              // a file for JSON lines; empty for none
  prep::PrepOptions prep;  // prep servers that help with the training batches; none is the default
  // Same meaning as the members of RunOptions with these names.
  std::string out;
  bool resume = false;
  uint64_t checkpoint_steps = RunOptions{}.checkpoint_steps;
  uint64_t log_steps = RunOptions{}.log_steps;
  feed::Price price;
  std::shared_ptr<Replicas> replicas = RunOptions{}.replicas;
  const std::atomic<bool>* stop = nullptr;
  // Number of PyTorch's threads; 0 means the usable cores, divided by the job's processes on this
  // machine.
  int torch_threads = 0;
  // When the process started, by io::monotonic_ns(). The time to the first batch counts from here.
  int64_t start_ns = 0;
};

// Runs the job. Sets PyTorch's number of threads for the whole process. Errors: kInvalid for
// options that make no sense alone, together or for the dataset; kUnsupported for "cuda" with
// several processes; otherwise those of train() and of opening files.
Result<Summary> run_job(io::FileSystem& fs, const TrainingJob& job);

}  // namespace forebay::train
