// Joins samples with what lies beside them by the names of their files: images of annotations,
// masks, further images. Whole names count first. Names without their suffixes count only where
// they leave no choice; otherwise the join is an error.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace forebay::store {

using base::Result;
using base::Status;

// The names of a dataset's samples.
struct SampleNames {
  std::vector<std::string> keys;
  // The paths of their images in the source, with suffixes; empty: not known.
  std::vector<std::string> paths = {};
};

// Stands for the number of a sample that does not exist.
inline constexpr uint64_t kNoSample = UINT64_MAX;

// Finds names among paths, whose last components need not differ.
class PathEnds {
 public:
  explicit PathEnds(std::vector<std::string> paths);
  PathEnds(const PathEnds&) = delete;
  PathEnds& operator=(const PathEnds&) = delete;

  // Returns the numbers of the paths that equal this one. If there are none, either of two paths
  // may have more leading folders than the other.
  std::vector<uint64_t> find(const std::string& path) const;
  const std::string& operator[](uint64_t number) const { return paths_[number]; }
  bool empty() const { return paths_.empty(); }

 private:
  const std::vector<std::string> paths_;
  std::unordered_multimap<std::string_view, uint64_t> by_end_;  // by the last component
};

// Finds the samples that are meant by the file names of images, as annotations have them.
class ImageNames {
 public:
  explicit ImageNames(const SampleNames& samples);

  // Returns for each file name the number of its sample, or kNoSample. A file name or a sample's
  // name may have more leading folders than the other. Errors: kInvalid if a name fits several
  // samples, or several names fit the same sample.
  Result<std::vector<uint64_t>> match(std::span<const std::string> file_names) const;

  // Whether a name has a last component, so that it can be the name of an image.
  static bool is_file_name(std::string_view file_name);

 private:
  Status match_by(const PathEnds& names, bool is_whole, std::span<const std::string> file_names,
                  std::vector<uint64_t>* out) const;

  const PathEnds whole_;  // empty if suffixes are not known
  const PathEnds stems_;
};

// Returns for each sample of `own` the number of the sample of `other` with the same name, or
// kNoSample. Errors: kInvalid if names without their suffixes leave a choice.
Result<std::vector<uint64_t>> same_names(const SampleNames& own, const SampleNames& other);

// Whether two samples of a folder may have names that differ only in their suffixes.
bool may_be_twins(std::span<const std::string> keys);

}  // namespace forebay::store
