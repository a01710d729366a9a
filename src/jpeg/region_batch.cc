#include "jpeg/region_batch.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace forebay::jpeg {
namespace {

// Large enough for many small images.
constexpr size_t kMemoryMin = size_t{4} << 20;
constexpr size_t kSlicesSize = kSlicePadding + kStreamSlots * kSliceStride;  // coefficients
// An image with this many bits is split regardless of the other images in the batch.
constexpr uint64_t kBitsEnough = 1 << 17;

}  // namespace

RegionBatch::RegionBatch(std::optional<EntropyKernel> kernel)
    : kernel_(kernel), splitter_(kernel), slices_(kSlicesSize * sizeof(int16_t)) {
  std::fill_n(coefficients(), kSlicesSize, int16_t{0});
}

void RegionBatch::begin() {
  cache_.begin();
  count_ = 0;
  ranges_ = 0;
  memory_used_ = 0;
}

RegionBatch::Added RegionBatch::add(const Scan& scan, Bytes file, const base::Rect& region,
                                    bool may_build, std::vector<int16_t>* coefficients) {
  if (count_ == kImagesAtOnce) return Added::kNoRoom;
  if (count_ == images_.size()) images_.push_back(std::make_unique<Image>());
  Image& image = *images_[count_];
  image.good = true;
  if (!image.region.lay_out(scan, file, region)) return Added::kNo;
  if (coefficients != nullptr) {
    coefficients->resize(image.region.block_count() * 64);
    image.region.keep_coefficients(coefficients->data());
  }
  const size_t bytes = image.region.bytes_needed();
  if (!make_room(bytes)) return Added::kNoRoom;
  switch (image.region.find_tables(scan, cache_, may_build)) {
    case LookupCache::Found::kYes:
      break;
    case LookupCache::Found::kNoRoom:
      return count_ > 0 ? Added::kNoRoom : Added::kNo;
    case LookupCache::Found::kNo:
      return Added::kNo;
  }
  if (!image.region.find_segments(file, kernel_.for_many(), memory_.data() + memory_used_)) {
    return Added::kNo;
  }
  image.split = false;
  memory_used_ += bytes;
  ranges_ += image.region.ranges().size();
  ++count_;
  // This image keeps the lanes busy by itself. Other images in between would only take room in the
  // caches.
  if (image.region.bits() >= kBitsEnough && are_few(image.region.ranges().size())) split(image);
  return Added::kYes;
}

// Makes room for `bytes` more bytes after those in use.
bool RegionBatch::make_room(size_t bytes) {
  if (memory_used_ + bytes <= memory_.size()) return true;
  if (count_ > 0) return false;
  memory_ = {};  // frees the old buffer before the new one is allocated
  memory_ = io::LargeBuffer(std::max(bytes, kMemoryMin));
  return true;
}

void RegionBatch::run() {
  if (count_ == 0) return;
  split_some();
  sort_ranges();
  next_ = 0;
  started_ = 0;
  decode_slices(kernel_, {ranges_, common_tables()}, cache_.arena(), coefficients(), *this);
}

const StreamTables* RegionBatch::common_tables() const {
  if (count_ == 0) return nullptr;
  const StreamTables& first = images_[0]->region.tables();
  for (size_t i = 1; i < count_; ++i) {
    if (images_[i]->region.tables().slots != first.slots) return nullptr;
  }
  return &first;
}

// Whether there are few ranges compared to the number of streams that run side by side. Long ranges
// are split one after the other, so if there are many ranges, not splitting them is faster.
bool RegionBatch::are_few(size_t ranges) const {
  return 2 * ranges < streams_at_once(kernel_.for_many());
}

void RegionBatch::split_some() {
  if (!are_few(ranges_)) return;
  for (size_t i = 0; i < count_; ++i) split(*images_[i]);
}

void RegionBatch::split(Image& image) {
  if (std::exchange(image.split, true)) return;
  ranges_ -= image.region.ranges().size();
  image.region.split_long_ranges(cache_.arena(), splitter_);
  ranges_ += image.region.ranges().size();
}

Stream* RegionBatch::next(Stream* done) {
  size_t lane = started_;
  if (done != nullptr) {
    lane = static_cast<size_t>(done - streams_.data());
    if (finish(*done, running_[lane])) return done;
  }
  while (next_ < order_.size() && !images_[order_[next_].image]->good) ++next_;
  if (next_ == order_.size()) return nullptr;
  if (done == nullptr) ++started_;
  running_[lane] = order_[next_++];
  RegionDecoder& region = images_[running_[lane].image]->region;
  region.begin_range(region.ranges()[running_[lane].range], slice(lane), &streams_[lane]);
  return &streams_[lane];
}

// Takes a decoded slice. Returns true when another slice of the range follows.
bool RegionBatch::finish(Stream& stream, const RangeOfImage& at) {
  Image& image = *images_[at.image];
  auto& range = image.region.ranges()[at.range];
  if (!image.good || !image.region.take(range, stream)) {
    image.good = false;
    std::fill_n(stream.out, kSliceStride, int16_t{0});
    return false;
  }
  if (range.done()) return false;
  stream.blocks = image.region.next_blocks(range);
  return true;
}

// Sorts ranges by length, longest first, so that the last lanes to finish do not work alone for
// long. An approximate order is enough.
void RegionBatch::sort_ranges() {
  constexpr uint64_t kClasses = 256;
  uint64_t longest = 0;
  for (size_t i = 0; i < count_; ++i) {
    for (const auto& range : images_[i]->region.ranges()) {
      longest = std::max(longest, range.bits - range.bit);
    }
  }
  const auto bits = static_cast<int>(std::bit_width(longest));
  const int shift = std::max(0, bits - static_cast<int>(std::bit_width(kClasses - 1)));
  const auto class_of = [&](uint64_t length) { return kClasses - 1 - (length >> shift); };
  std::array<uint32_t, kClasses + 1> first{};  // the first place of each class in order_
  for (size_t i = 0; i < count_; ++i) {
    for (const auto& range : images_[i]->region.ranges())
      ++first[class_of(range.bits - range.bit) + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  order_.resize(ranges_);
  for (uint32_t i = 0; i < count_; ++i) {
    const auto& ranges = images_[i]->region.ranges();
    for (uint32_t s = 0; s < ranges.size(); ++s) {
      order_[first[class_of(ranges[s].bits - ranges[s].bit)]++] = {i, s};
    }
  }
}

}  // namespace forebay::jpeg
