#include "jpeg/scan_decoder.h"

#include <algorithm>
#include <functional>

namespace forebay::jpeg {
namespace {

constexpr size_t kSliceStride = size_t{kSliceBlocksMax} * 64 + kSlicePadding;

}  // namespace

void ScanDecoder::begin() {
  cache_.begin();
  count_ = 0;
  segments_ = 0;
  if (dirty_) std::ranges::fill(coefficients_, int16_t{0});
  dirty_ = false;
}

bool ScanDecoder::add(const Scan& scan, Bytes file, const base::Rect& region) {
  FOREBAY_CHECK(count_ < kImagesMax);
  if (count_ == images_.size()) images_.push_back(std::make_unique<Image>());
  Image& image = *images_[count_];
  image.good = true;
  if (!image.scan.begin(scan, file, region, cache_)) return false;
  segments_ += image.scan.segments().size();
  ++count_;
  return true;
}

void ScanDecoder::run() {
  if (coefficients_.empty()) coefficients_.resize(kWindow * kSliceStride);
  sort_segments();
  active_.clear();
  size_t next = 0;
  while (next < order_.size() || !active_.empty()) {
    while (active_.size() < kWindow && next < order_.size()) active_.push_back(order_[next++]);
    decode_window();
    std::erase_if(active_, [&](Key key) {
      Image& image = *images_[image_of(key)];
      return !image.good || image.scan.segments()[segment_of(key)].done();
    });
  }
}

// Alike lengths side by side, so that no lane waits long for the others; the longest first.
void ScanDecoder::sort_segments() {
  order_.clear();
  for (size_t i = 0; i < count_; ++i) {
    const auto& segments = images_[i]->scan.segments();
    for (size_t s = 0; s < segments.size(); ++s) {
      order_.push_back(segments[s].bits << 32 | i << 24 | s);
    }
  }
  std::ranges::sort(order_, std::greater<>());
}

void ScanDecoder::decode_window() {
  streams_.clear();
  for (const Key key : active_) {
    RegionScan& scan = images_[image_of(key)]->scan;
    int16_t* const out = coefficients_.data() + streams_.size() * kSliceStride;
    streams_.push_back(scan.slice(scan.segments()[segment_of(key)], out));
  }
  dirty_ = true;
  decode_slices(kernel_, cache_.arena(), streams_);
  for (size_t i = 0; i < active_.size(); ++i) {
    Image& image = *images_[image_of(active_[i])];
    auto& segment = image.scan.segments()[segment_of(active_[i])];
    if (image.good && image.scan.take(segment, streams_[i])) continue;
    image.good = false;
    std::fill_n(streams_[i].out, kSliceStride, int16_t{0});
  }
  for (size_t i = 0; i < count_; ++i) images_[i]->scan.transform();
  dirty_ = false;
}

}  // namespace forebay::jpeg
