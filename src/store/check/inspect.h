// Describes a dataset, packed or in place, in words: what it holds, where each byte of a sample
// lies, and which of these bytes a crop of an image needs.
#pragma once

#include <functional>

#include "base/pixels.h"
#include "store/dataset.h"

namespace forebay::store {

struct SampleLine {
  std::string key;
  std::string
      class_name;  // the class's number where the source had no names; empty without a class
  int64_t label = -1;
  uint64_t bytes = 0;  // of the image
  uint32_t width = 0;  // in pixels; 0 if unknown, like for images in place
  uint32_t height = 0;
  uint32_t chunk = 0;
};

// Calls `each` for every sample, in the dataset's order.
Status list_samples(const io::Origin& origin, const std::string& dataset,
                    const std::function<void(const SampleLine&)>& each);

Result<std::string> describe_dataset(const io::Origin& origin, const std::string& dataset);

// `name` is a sample's key, a chunk's hash (its first 6 digits or more) or a chunk's number;
// kNotFound when it is none of them.
Result<std::string> describe_item(const io::Origin& origin, const std::string& dataset,
                                  const std::string& name);

// Says which bytes `crop` of a sample's image needs. Decodes the crop from those bytes alone and
// compares it with the crop of a full decode; kCorrupt when the pixels differ.
Result<std::string> describe_crop(const io::Origin& origin, const std::string& dataset,
                                  const std::string& key, const base::Rect& crop);

}  // namespace forebay::store
