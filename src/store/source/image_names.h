// Joins samples with what lies beside them by the names of their files: rows of labels, images of
// annotations, masks, further images. Whole names count first. Names without their suffixes count
// only where they leave no choice. A choice is reported to a caller who asks for single names, and
// an error if all names are joined at once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/format/listing.h"

namespace forebay::store {

using base::Result;
using base::Status;

// The names of a dataset's samples.
struct SampleNames {
  std::vector<std::string> keys;
  // The paths of their images in the source, with suffixes; empty: not known.
  std::vector<std::string> paths = {};
};

SampleNames names_of(const Listing& listing);

// Stands for the number of a sample that does not exist.
inline constexpr uint64_t kNoSample = UINT64_MAX;

// Finds names among paths, whose last components need not differ.
class PathEnds {
 public:
  explicit PathEnds(std::vector<std::string> paths);
  PathEnds(const PathEnds&) = delete;
  PathEnds& operator=(const PathEnds&) = delete;

  // Returns the numbers of the paths that equal this one, in ascending order.
  std::vector<uint64_t> equal(std::string_view path) const;
  // Returns the same numbers. If there are none, either of two paths may have more leading folders
  // than the other.
  std::vector<uint64_t> find(std::string_view path) const;
  const std::string& operator[](uint64_t number) const { return paths_[number]; }
  bool empty() const { return paths_.empty(); }

 private:
  // Hashes of a path. Sorted entries take much less time and memory than a hash table of a
  // million paths.
  struct Entry {
    size_t end_hash = 0;  // of the last component
    size_t hash = 0;
    uint64_t number = 0;
    auto operator<=>(const Entry&) const = default;
  };

  const std::vector<std::string> paths_;
  std::vector<Entry> entries_;  // ascending
};

// Finds the samples that are meant by the file names of images.
class ImageNames {
 public:
  struct Match {
    std::optional<uint64_t> sample;
    bool fits_several = false;  // several samples match equally well, so there is no `sample`
  };

  explicit ImageNames(const SampleNames& samples);

  // Returns the sample that has this name, for labels. Takes the first rule that some sample
  // satisfies: the name is its key; the name is the path of its image; the name is that path
  // without its suffix; only the suffixes differ. If paths are known, the last rule counts only the
  // suffixes of images: "IMG.2020" has none. By the rules after the first, the name or the sample's
  // own may have more leading folders than the other.
  Match find(const std::string& file_name) const;

  // Returns for each file name of annotations the number of its sample, or kNoSample: whole names
  // first, then names without their suffixes. A file name or a sample's name may have more leading
  // folders than the other. Errors: kInvalid if a name fits several samples, or several names fit
  // the same sample.
  Result<std::vector<uint64_t>> match(std::span<const std::string> file_names) const;

  // Whether a name has a last component, so that it can be the name of an image.
  static bool is_file_name(std::string_view file_name);

 private:
  Status match_by(const PathEnds& names, bool is_whole, std::span<const std::string> file_names,
                  std::vector<uint64_t>* out) const;

  const PathEnds keys_;
  const PathEnds whole_;           // empty if suffixes are not known
  const PathEnds without_suffix_;  // `whole_` without suffixes
  const PathEnds stems_;           // the keys, without what tells twins apart ("a" and "a_png")
};

// How names of files look around the part that tells their samples apart: "{}_left" for "a_left".
struct NamePattern {
  std::string begin;
  std::string end;

  // `text` has one "{}", and neither folders nor the suffix of an image. Errors: kInvalid.
  static Result<NamePattern> parse(std::string_view text);
  std::string text() const { return begin + "{}" + end; }
  bool operator==(const NamePattern&) const = default;
};

// The patterns of images and of what lies beside them, such as masks.
struct NamePatterns {
  NamePattern own = {};
  NamePattern other = {};
  // Whether names are compared as they are.
  bool are_plain() const { return own == NamePattern{} && other == NamePattern{}; }
};

// Returns for each sample of `own` the number of the sample of `other` with the same name, or
// kNoSample. With patterns, names are the same if their parts in the place of "{}" are, whatever
// the suffixes; names that do not fit their pattern are no names. Errors: kInvalid if names without
// their suffixes leave a choice.
Result<std::vector<uint64_t>> same_names(const SampleNames& own, const SampleNames& other,
                                         const NamePatterns& patterns = {});

// Whether two samples of a folder may have names that differ only in their suffixes.
bool may_be_twins(std::span<const std::string> keys);

}  // namespace forebay::store
