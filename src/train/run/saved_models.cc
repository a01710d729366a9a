#include "train/run/saved_models.h"

#include <fmt/format.h>

#include <cstdlib>

namespace forebay::train {

namespace {

constexpr const char* kLast = "model.safetensors";
constexpr const char* kBest = "best.safetensors";
// In a model's metadata: its accuracy on the validation dataset, from 0 to 1.
constexpr const char* kAccuracyKey = "val_accuracy";

}  // namespace

Result<std::string> SavedModels::there() const {
  if (folder_.empty()) return std::string();
  for (const char* const name : {kLast, kBest}) {
    ASSIGN_OR_RETURN(const bool is_there, io::exists(fs_, path(name)));
    if (is_there) return path(name);
  }
  return std::string();
}

Status SavedModels::resume() {
  ASSIGN_OR_RETURN(const bool is_there, io::exists(fs_, path(kBest)));
  if (!is_there) return {};
  ASSIGN_OR_RETURN(const auto metadata, read_metadata(fs_, path(kBest)));
  const auto found = metadata.find(kAccuracyKey);
  if (found != metadata.end()) best_accuracy_ = std::strtod(found->second.c_str(), nullptr);
  return {};
}

Status SavedModels::measured(const Model& model, double accuracy, bool is_last) {
  if (folder_.empty()) return {};
  const std::map<std::string, std::string> metadata = {
      {kAccuracyKey, fmt::format("{:.6f}", accuracy)}};
  if (accuracy > best_accuracy_) {
    best_accuracy_ = accuracy;
    RETURN_IF_ERROR(write_weights(fs_, path(kBest), model, metadata));
  }
  if (!is_last) return {};
  is_saved_ = true;
  return write_weights(fs_, path(kLast), model, metadata);
}

Status SavedModels::end(const Model& model) {
  if (folder_.empty() || is_saved_) return {};
  return write_weights(fs_, path(kLast), model);
}

}  // namespace forebay::train
