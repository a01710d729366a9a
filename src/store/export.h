// Writes a dataset back as plain files: a folder by class.
#pragma once

#include <atomic>

#include "io/file_system.h"
#include "store/dataset.h"

namespace forebay::store {

struct ExportOptions {
  // Whether to write every file and value of a sample beside its image, as <name>.<suffix>. Without
  // it there are only images, the way ImageFolder expects them.
  bool all_fields = false;
  // Set by anyone to stop soon (kCancelled); what was written stays.
  const std::atomic<bool>* stop = nullptr;
};

struct ExportReport {
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::vector<std::string> lost;  // what is damaged and was left out: where and why
};

// Writes every sample's image of `dataset`, which lies at the origin `from`, into `folder` of `to`,
// under its source path. Where that path does not begin with the
// class's name, it goes into a folder of that name, or of the class's number where classes have no
// names. A class without images gets an empty folder. `folder` is new or empty. Each file appears
// whole or not at all; damaged files are left out and listed. Errors: kExists (the folder is not
// empty), kCorrupt (a path leads out of the folder), kCancelled, those of the disk.
Result<ExportReport> export_dataset(const io::Origin& from, const std::string& dataset,
                                    io::FileSystem& to, const std::string& folder,
                                    const ExportOptions& options);

}  // namespace forebay::store
