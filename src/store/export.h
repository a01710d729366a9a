// A dataset back to plain files: a folder by class.
#pragma once

#include "store/dataset.h"

namespace forebay::store {

struct ExportOptions {
  // Every file and value of a sample beside its image, as <name>.<suffix>; else images alone, as
  // an ImageFolder expects them.
  bool all_fields = false;
};

struct ExportReport {
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::vector<std::string> lost;  // what is damaged and was left out: where and why
};

// Writes every sample's image under its source path, in a folder of its class's name where that
// path does not begin with it; where the source had class numbers without names, in a folder of
// that number. `folder` is new or empty. Each file appears whole or not at all; damaged ones are
// left out and listed. Errors: kExists (the folder is not empty), kCorrupt (a path leads out of the
// folder), those of the disk.
Result<ExportReport> export_dataset(io::FileSystem& fs, const std::string& dataset,
                                    const std::string& folder, const ExportOptions& options);

}  // namespace forebay::store
