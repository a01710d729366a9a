// Finds the sample that is meant by the file name of an image, as annotations have it.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace forebay::store {

class ImageNames {
 public:
  // `keys`: the keys of all samples, in order.
  explicit ImageNames(std::vector<std::string> keys);
  ImageNames(const ImageNames&) = delete;
  ImageNames& operator=(const ImageNames&) = delete;

  // Returns the number of the sample whose key is the file's name without its extension. The key or
  // the name may have more leading folders than the other, if only one sample then matches.
  std::optional<uint64_t> find(std::string_view file_name) const;

  // Whether a name has a last component, so that it can be the name of an image.
  static bool is_file_name(std::string_view file_name);

 private:
  const std::vector<std::string> keys_;
  std::unordered_map<std::string_view, uint64_t> whole_;
  std::unordered_multimap<std::string_view, uint64_t> by_end_;  // by the key's last component
};

}  // namespace forebay::store
