// Finds the sample that is meant by the file name of an image in a table of labels. Annotations and
// masks are joined more strictly, by image_names.h.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace forebay::store {

class SampleFinder {
 public:
  struct Match {
    std::optional<uint64_t> sample;
    bool fits_several = false;  // several samples match equally well, so there is no `sample`
  };

  // `keys`: the keys of all samples, in order. `paths`: the paths of their images in the source
  // (SourceSample::source_path), or empty if they are not known.
  explicit SampleFinder(std::vector<std::string> keys, std::vector<std::string> paths = {});
  SampleFinder(const SampleFinder&) = delete;
  SampleFinder& operator=(const SampleFinder&) = delete;

  // Returns the sample that has this name. Takes the first rule that some sample satisfies: the
  // name is its key; the name is the path of its image; the name is that path without its suffix;
  // the name without its suffix is its key as escaped by the source, so only the suffixes differ.
  // If paths are known, the last rule counts only the suffixes of images: "IMG.2020" has none. By
  // the rules after the first, the name or the sample's own may have more leading folders than the
  // other, if only one sample then matches.
  Match match(std::string_view file_name) const;

 private:
  // Names of samples, as wholes and by their last components.
  class Names {
   public:
    explicit Names(std::vector<std::string> names);
    bool is_empty() const { return names_.empty(); }
    std::optional<uint64_t> whole(const std::string& name) const;
    Match match(std::string_view name) const;

   private:
    std::vector<std::string> names_;
    std::unordered_map<std::string_view, uint64_t> whole_;
    std::unordered_multimap<std::string_view, uint64_t> by_end_;
  };

  const Names keys_;
  const Names paths_;
  const Names stems_;  // the paths without their suffixes
};

}  // namespace forebay::store
