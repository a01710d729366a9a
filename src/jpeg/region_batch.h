// Decodes regions of one or several images side by side, so that all lanes of the entropy kernels
// have work. One thread does it all; parallelism is in the lanes.
#pragma once

#include "jpeg/region_decoder.h"

namespace forebay::jpeg {

// Keeps its buffers between images. Used by one thread at a time.
class RegionBatch : private StreamSource {
 public:
  // `kernel` is used for everything; when unset, the fastest is chosen for each number of streams.
  explicit RegionBatch(std::optional<EntropyKernel> kernel);

  enum class Added : uint8_t {
    kYes,
    kNoRoom,  // not next to the other images; alone the image will fit
    kNo,      // malformed, or it needs tables that may not be built
  };

  // Forgets all images.
  void begin();
  // Adds a region of an image. `may_build` allows building lookups for tables that are neither
  // compiled in nor standard. When `coefficients` is not null, it receives the coefficients of the
  // whole image, and no samples are made (RegionDecoder::keep_coefficients).
  Added add(const Scan& scan, Bytes file, const base::Rect& region, bool may_build,
            std::vector<int16_t>* coefficients = nullptr);
  // Whether adding more images would make decoding faster.
  bool wants_more() const { return ranges_ < kRangesEnough && count_ < kImagesAtOnce; }
  // Decodes all images that were added.
  void run();
  // Results for an image, numbered in the order of add(). good() is false when its data is damaged.
  bool good(size_t image) const { return images_[image]->good; }
  const Plane& plane(size_t image, size_t component) const {
    return images_[image]->region.plane(component);
  }

 private:
  static constexpr size_t kImagesAtOnce = 64;
  // With this many ranges, it costs little that lanes run empty at the end.
  static constexpr size_t kRangesEnough = 4 * kStreamSlots;

  struct Image {
    RegionDecoder region;
    bool split = false;
    bool good = true;
  };
  struct RangeOfImage {
    uint32_t image = 0;
    uint32_t range = 0;
  };

  Stream* next(Stream* done) override;
  bool finish(Stream& stream, const RangeOfImage& at);
  bool are_few(size_t ranges) const;
  void split_some();
  void split(Image& image);
  // The tables of all images when they are the same, else null.
  const StreamTables* common_tables() const;
  void sort_ranges();
  bool make_room(size_t bytes);
  int16_t* coefficients() const { return reinterpret_cast<int16_t*>(slices_.data()); }
  int16_t* slice(size_t lane) const { return coefficients() + kSlicePadding + lane * kSliceStride; }

  const KernelSelection kernel_;
  LookupCache cache_;
  SegmentSplitter splitter_;
  std::vector<std::unique_ptr<Image>> images_;
  io::LargeBuffer memory_;  // samples and bits of all images
  size_t memory_used_ = 0;
  size_t count_ = 0;
  size_t ranges_ = 0;
  std::vector<RangeOfImage> order_;
  size_t next_ = 0;  // the next place in order_ to begin
  // The streams that are being decoded.
  std::array<Stream, kStreamSlots> streams_;
  std::array<RangeOfImage, kStreamSlots> running_;
  size_t started_ = 0;      // used entries of streams_
  io::LargeBuffer slices_;  // the coefficients of streams_; all zero between images
};

}  // namespace forebay::jpeg
