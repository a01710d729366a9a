#include "jpeg/scan_decoder.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace forebay::jpeg {
namespace {

// Room for many small images.
constexpr size_t kMemoryMin = size_t{4} << 20;
constexpr size_t kSlicesSize = kSlicePadding + kStreamsMax * kSliceStride;  // coefficients
// Of an image that is worth splitting whatever is beside it.
constexpr uint64_t kBitsEnough = 1 << 17;

}  // namespace

ScanDecoder::ScanDecoder(std::optional<EntropyKernel> kernel)
    : kernel_(kernel), splitter_(kernel), slices_(kSlicesSize * sizeof(int16_t)) {
  std::fill_n(coefficients(), kSlicesSize, int16_t{0});
}

void ScanDecoder::begin() {
  cache_.begin();
  count_ = 0;
  segments_ = 0;
  memory_used_ = 0;
}

ScanDecoder::Added ScanDecoder::add(const Scan& scan, Bytes file, const base::Rect& region,
                                    bool may_build, std::vector<int16_t>* coefficients) {
  if (count_ == kImagesMax) return Added::kNoRoom;
  if (count_ == images_.size()) images_.push_back(std::make_unique<Image>());
  Image& image = *images_[count_];
  image.good = true;
  if (!image.scan.lay_out(scan, file, region)) return Added::kNo;
  if (coefficients != nullptr) {
    coefficients->resize(image.scan.block_count() * 64);
    image.scan.keep_coefficients(coefficients->data());
  }
  const size_t bytes = image.scan.bytes_needed();
  if (!make_room(bytes)) return Added::kNoRoom;
  switch (image.scan.find_tables(scan, cache_, may_build)) {
    case LookupCache::Found::kYes:
      break;
    case LookupCache::Found::kNoRoom:
      return count_ > 0 ? Added::kNoRoom : Added::kNo;
    case LookupCache::Found::kNo:
      return Added::kNo;
  }
  if (!image.scan.find_segments(file, kernel_.for_many(), memory_.data() + memory_used_)) {
    return Added::kNo;
  }
  image.split = false;
  memory_used_ += bytes;
  segments_ += image.scan.segments().size();
  ++count_;
  // Enough for itself; others' would only take room in the caches.
  if (image.scan.bits() >= kBitsEnough && are_few(image.scan.segments().size())) split(image);
  return Added::kYes;
}

// Behind what is used.
bool ScanDecoder::make_room(size_t bytes) {
  if (memory_used_ + bytes <= memory_.size()) return true;
  if (count_ > 0) return false;
  memory_ = {};  // the old one is not needed any more
  memory_ = io::LargeBuffer(std::max(bytes, kMemoryMin));
  return true;
}

void ScanDecoder::run() {
  if (count_ == 0) return;
  split_some();
  sort_segments();
  next_ = 0;
  started_ = 0;
  decode_slices(kernel_, {segments_, common_tables()}, cache_.arena(), coefficients(), *this);
}

const StreamTables* ScanDecoder::common_tables() const {
  if (count_ == 0) return nullptr;
  const StreamTables& first = images_[0]->scan.tables();
  for (size_t i = 1; i < count_; ++i) {
    if (images_[i]->scan.tables().slots != first.slots) return nullptr;
  }
  return &first;
}

// Beside what can go side by side. Long segments are split one after the other, and many of them
// are faster as they are.
bool ScanDecoder::are_few(size_t segments) const {
  return 2 * segments < streams_at_once(kernel_.for_many());
}

void ScanDecoder::split_some() {
  if (!are_few(segments_)) return;
  for (size_t i = 0; i < count_; ++i) split(*images_[i]);
}

void ScanDecoder::split(Image& image) {
  if (std::exchange(image.split, true)) return;
  segments_ -= image.scan.segments().size();
  image.scan.split_long_segments(cache_.arena(), splitter_);
  segments_ += image.scan.segments().size();
}

Stream* ScanDecoder::next(Stream* done) {
  size_t lane = started_;
  if (done != nullptr) {
    lane = static_cast<size_t>(done - streams_.data());
    if (finish(*done, places_[lane])) return done;
  }
  while (next_ < order_.size() && !images_[order_[next_].image]->good) ++next_;
  if (next_ == order_.size()) return nullptr;
  if (done == nullptr) ++started_;
  places_[lane] = order_[next_++];
  RegionScan& scan = images_[places_[lane].image]->scan;
  scan.begin_segment(scan.segments()[places_[lane].segment], slice(lane), &streams_[lane]);
  return &streams_[lane];
}

// Makes samples of a slice. True when another one of the segment is to be decoded.
bool ScanDecoder::finish(Stream& stream, const Place& place) {
  Image& image = *images_[place.image];
  auto& segment = image.scan.segments()[place.segment];
  if (!image.good || !image.scan.take(segment, stream)) {
    image.good = false;
    std::fill_n(stream.out, kSliceStride, int16_t{0});
    return false;
  }
  if (segment.done()) return false;
  stream.blocks = image.scan.next_blocks(segment);
  return true;
}

// The longest first, so that the last lanes to end do not work alone for long. About is enough.
void ScanDecoder::sort_segments() {
  constexpr uint64_t kClasses = 256;
  uint64_t longest = 0;
  for (size_t i = 0; i < count_; ++i) {
    for (const auto& segment : images_[i]->scan.segments()) {
      longest = std::max(longest, segment.bits - segment.bit);
    }
  }
  const auto bits = static_cast<int>(std::bit_width(longest));
  const int shift = std::max(0, bits - static_cast<int>(std::bit_width(kClasses - 1)));
  const auto class_of = [&](uint64_t length) { return kClasses - 1 - (length >> shift); };
  std::array<uint32_t, kClasses + 1> first{};  // of each class, in order_
  for (size_t i = 0; i < count_; ++i) {
    for (const auto& segment : images_[i]->scan.segments())
      ++first[class_of(segment.bits - segment.bit) + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  order_.resize(segments_);
  for (uint32_t i = 0; i < count_; ++i) {
    const auto& segments = images_[i]->scan.segments();
    for (uint32_t s = 0; s < segments.size(); ++s) {
      order_[first[class_of(segments[s].bits - segments[s].bit)]++] = {i, s};
    }
  }
}

}  // namespace forebay::jpeg
