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
  if (coefficients_.empty()) coefficients_.resize(kSlicePadding + kStreamsMax * kSliceStride);
  sort_segments();
  next_ = 0;
  started_ = 0;
  dirty_ = true;
  decode_slices(kernel_, cache_.arena(), coefficients_.data(), *this);
  dirty_ = false;
}

int16_t* ScanDecoder::slice(size_t lane) {
  return coefficients_.data() + kSlicePadding + lane * kSliceStride;
}

Stream* ScanDecoder::next(Stream* done) {
  size_t lane = started_;
  if (done != nullptr) {
    lane = static_cast<size_t>(done - streams_.data());
    if (finish(*done, keys_[lane])) return done;
  }
  while (next_ < order_.size() && !images_[image_of(order_[next_])]->good) ++next_;
  if (next_ == order_.size()) return nullptr;
  if (done == nullptr) ++started_;
  keys_[lane] = order_[next_++];
  RegionScan& scan = images_[image_of(keys_[lane])]->scan;
  streams_[lane] = scan.slice(scan.segments()[segment_of(keys_[lane])], slice(lane));
  return &streams_[lane];
}

// Makes samples of a slice. True when another one of the segment is to be decoded.
bool ScanDecoder::finish(Stream& stream, Key key) {
  Image& image = *images_[image_of(key)];
  auto& segment = image.scan.segments()[segment_of(key)];
  if (!image.good || !image.scan.take(segment, stream)) {
    image.good = false;
    std::fill_n(stream.out, kSliceStride, int16_t{0});
    return false;
  }
  if (segment.done()) return false;
  stream = image.scan.slice(segment, stream.out);
  return true;
}

// The longest first, so that the last lanes to end do not work alone for long.
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

}  // namespace forebay::jpeg
