// The models that a run leaves in its folder: the last one, and the best one in a validation.
#pragma once

#include <string>

#include "train/model/weights.h"

namespace forebay::train {

using base::Result;
using base::Status;

class SavedModels {
 public:
  // An empty `folder` means that nothing is saved.
  SavedModels(io::FileSystem& fs, std::string folder) : fs_(fs), folder_(std::move(folder)) {}

  // Returns the path of a model that is there already; empty if there is none.
  Result<std::string> there() const;
  // Learns how accurate the best model is that an earlier part of the run has saved.
  Status resume();
  // Saves the model, which was just measured, if it is the best so far. If the measurement ends the
  // run, it is also the last one. `accuracy`: from 0 to 1.
  Status measured(const Model& model, double accuracy, bool is_last);
  // Saves the model as the last one, unless measured() has done so.
  Status end(const Model& model);

 private:
  std::string path(const char* name) const { return io::join_path(folder_, name); }

  io::FileSystem& fs_;
  const std::string folder_;
  double best_accuracy_ = -1;
  bool is_saved_ = false;  // the last model
};

}  // namespace forebay::train
