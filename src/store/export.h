// Exports a dataset as plain files, in a folder for each class.
#pragma once

#include <atomic>

#include "io/file_system.h"
#include "store/dataset.h"

namespace forebay::store {

struct ExportOptions {
  // Whether to write every file and value of a sample beside its image, as <name>.<suffix>.
  // Otherwise only images are written, as torchvision's ImageFolder expects them.
  bool all_fields = false;
  // Any thread may set this to stop the export soon (kCancelled); files already written stay.
  const std::atomic<bool>* stop = nullptr;
};

struct ExportReport {
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::vector<std::string> lost;  // messages about damaged files and chunks, which were left out
};

// Writes every sample's image of `dataset`, which lies at the origin `from`, into `folder` of `to`,
// under its source path. If that path does not begin with the class's name, the image goes into a
// folder with that name, or with the class's number if classes have no names. A class without
// images gets an empty folder. `folder` must be new or empty. Each file appears whole or not at
// all; damaged files are left out and listed in the report. Errors: kExists (the folder is not
// empty), kCorrupt (a path leads out of the folder), kCancelled, those of the disk.
Result<ExportReport> export_dataset(const io::Origin& from, const std::string& dataset,
                                    io::FileSystem& to, const std::string& folder,
                                    const ExportOptions& options);

}  // namespace forebay::store
