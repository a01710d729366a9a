// Decodes the segments of one or several images side by side.
#pragma once

#include "jpeg/region_scan.h"

namespace forebay::jpeg {

// Keeps its buffers between images. One thread at a time.
class ScanDecoder : private StreamSource {
 public:
  // `kernel`: the only one; unset, the fastest.
  explicit ScanDecoder(std::optional<EntropyKernel> kernel);

  enum class Added : uint8_t {
    kYes,
    kNoRoom,  // beside the other images; alone there will be
    kNo,      // as RegionScan::begin(), or it needs tables that may not be built
  };

  // Forgets all images.
  void begin();
  // `may_build`: lookups for tables that are not known beforehand.
  // `coefficients`: if not null, get those of the whole image, and no samples are made
  // (RegionScan::keep_coefficients).
  Added add(const Scan& scan, Bytes file, const base::Rect& region, bool may_build,
            std::vector<int16_t>* coefficients = nullptr);
  // Whether more images would make it faster.
  bool wants_more() const { return segments_ < kSegmentsEnough && count_ < kImagesMax; }
  // Decodes all images that were added.
  void run();
  // Of an image by the order in which they were added: false as RegionScan::begin().
  bool good(size_t image) const { return images_[image]->good; }
  const Plane& plane(size_t image, size_t component) const {
    return images_[image]->scan.plane(component);
  }

 private:
  static constexpr size_t kImagesMax = 64;
  // With more, the end, when lanes run empty, costs little.
  static constexpr size_t kSegmentsEnough = 4 * kStreamsMax;

  struct Image {
    RegionScan scan;
    bool split = false;
    bool good = true;
  };
  struct Place {
    uint32_t image = 0;
    uint32_t segment = 0;
  };

  Stream* next(Stream* done) override;
  bool finish(Stream& stream, const Place& place);
  bool are_few(size_t segments) const;
  void split_some();
  void split(Image& image);
  // Those of all images, if they are the same.
  const StreamTables* common_tables() const;
  void sort_segments();
  bool make_room(size_t bytes);
  int16_t* coefficients() const { return reinterpret_cast<int16_t*>(slices_.data()); }
  int16_t* slice(size_t lane) const { return coefficients() + kSlicePadding + lane * kSliceStride; }

  const KernelChoice kernel_;
  LookupCache cache_;
  SegmentSplitter splitter_;
  std::vector<std::unique_ptr<Image>> images_;
  io::LargeBuffer memory_;  // samples and bits of all images
  size_t memory_used_ = 0;
  size_t count_ = 0;
  size_t segments_ = 0;
  std::vector<Place> order_;
  size_t next_ = 0;  // of order_
  // What is decoded now.
  std::array<Stream, kStreamsMax> streams_;
  std::array<Place, kStreamsMax> places_;
  size_t started_ = 0;      // of streams_
  io::LargeBuffer slices_;  // of streams_; all zero between images
};

}  // namespace forebay::jpeg
