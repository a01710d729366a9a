// A dataset, packed or in place, in words, for people: what it holds, where each byte of a sample
// lies, and what a crop of an image needs of them.
#pragma once

#include <functional>

#include "base/pixels.h"
#include "store/dataset.h"

namespace forebay::store {

struct SampleLine {
  std::string key;
  std::string class_name;  // the number, where the source had no names; empty without a class
  int64_t label = -1;
  uint64_t bytes = 0;  // of the image
  uint32_t width = 0;  // 0: unknown, as of images in place
  uint32_t height = 0;
  uint32_t chunk = 0;
};

// Calls `each` for every sample, in the dataset's order.
Status list_samples(const io::FileSystem& fs, const std::string& dataset,
                    const std::function<void(const SampleLine&)>& each);

Result<std::string> describe_dataset(const io::FileSystem& fs, const std::string& dataset);

// `name`: a sample's key, a chunk's hash (its first 6 digits or more) or a chunk's number.
// kNotFound when it is none of them.
Result<std::string> describe_item(const io::FileSystem& fs, const std::string& dataset,
                                  const std::string& name);

// Which bytes `crop` of a sample's image touches; decodes from those alone and compares with the
// crop of a full decode. kCorrupt when the pixels differ.
Result<std::string> describe_crop(const io::FileSystem& fs, const std::string& dataset,
                                  const std::string& key, const base::Rect& crop);

}  // namespace forebay::store
