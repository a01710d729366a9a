// Describes a dataset, packed or in place, in words: what it holds, where the bytes of a sample
// are, and which of these bytes a crop of an image needs.
#pragma once

#include <functional>

#include "base/pixels.h"
#include "store/dataset.h"

namespace forebay::store {

struct SampleLine {
  std::string key;
  // The class's number if the source had no class names; empty without a class.
  std::string class_name;
  int64_t label = -1;
  uint64_t bytes = 0;  // of the image
  uint32_t width = 0;  // in pixels; 0 if unknown, as for images in place
  uint32_t height = 0;
  uint32_t chunk = 0;
};

// Calls `each` for every sample, in the dataset's order.
Status list_samples(const io::Origin& origin, const std::string& dataset,
                    const std::function<void(const SampleLine&)>& each);

Result<std::string> describe_dataset(const io::Origin& origin, const std::string& dataset);

// `name` is a sample's key, a chunk's hash (its first 6 digits or more) or a chunk's number.
// kNotFound if it is none of these.
Result<std::string> describe_item(const io::Origin& origin, const std::string& dataset,
                                  const std::string& name);

// Describes the bytes that `crop` of a sample's image needs. Decodes the crop from those bytes
// alone and compares it with the crop of a full decode; kCorrupt if the pixels differ.
Result<std::string> describe_crop(const io::Origin& origin, const std::string& dataset,
                                  const std::string& key, const base::Rect& crop);

}  // namespace forebay::store
