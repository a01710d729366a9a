#include "prep/wire/wire_bytes.h"

#include <cstring>

namespace forebay::prep {

feed::FeedOptions wire_options(const feed::FeedOptions& options) {
  feed::FeedOptions out = options;
  if (options.images != feed::Images::kTensor || options.tensor.dtype == image::DType::kUint8 ||
      options.transform.erasing.probability > 0) {
    return out;
  }
  out.tensor = {.dtype = image::DType::kUint8, .layout = image::Layout::kNchw};
  return out;
}

FromBytes::FromBytes(const feed::FeedOptions& options, std::shared_ptr<ReceivedMemory> memory)
    : writer_(options.tensor),
      size_(options.transform.size),
      sample_bytes_(writer_.sample_bytes(size_)),
      memory_(std::move(memory)) {}

std::shared_ptr<uint8_t> FromBytes::make(const uint8_t* bytes,
                                         const std::vector<uint8_t>& valid) const {
  const uint64_t plane = uint64_t{size_.width} * size_.height;
  std::shared_ptr<uint8_t> out = memory_->take(tensor_bytes(valid.size()));
  for (size_t i = 0; i < valid.size(); ++i) {
    uint8_t* const to = out.get() + i * sample_bytes_;
    if (valid[i] == 0) {
      std::memset(to, 0, sample_bytes_);
      continue;
    }
    const uint8_t* const sample = bytes + i * 3 * plane;
    for (uint32_t y = 0; y < size_.height; ++y) {
      const uint8_t* const row = sample + uint64_t{y} * size_.width;
      writer_.write_row({row, row + plane, row + 2 * plane}, y, size_, false, to);
    }
  }
  image::TensorWriter::complete();
  return out;
}

}  // namespace forebay::prep
