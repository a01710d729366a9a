// What a region needs from the one scan of a sequential JPEG: which MCUs, in which restart
// segments, and where the samples of its components lie. Plain geometry; nothing is decoded here.
#pragma once

#include <vector>

#include "jpeg/format/scan.h"
#include "jpeg/kernels/entropy.h"
#include "jpeg/kernels/plane.h"

namespace forebay::jpeg {

inline constexpr size_t kCacheLine = 64;  // bytes

// A restart segment that a region needs.
struct NeededSegment {
  const uint8_t* data = nullptr;  // without stuffing
  uint64_t bytes = 0;
  uint32_t first_mcu = 0;
  uint32_t end_mcu = 0;    // after the last needed MCU; equal to first_mcu if none is needed
  uint32_t whole_end = 0;  // after the last MCU of the segment
};

struct RegionLayout {
  uint32_t across = 0;  // MCUs in a row of the image
  uint32_t mcus = 0;
  uint32_t left = 0;  // the needed MCUs: [left, right) x [top, bottom)
  uint32_t right = 0;
  uint32_t top = 0;
  uint32_t bottom = 0;
  uint32_t interval = 0;  // MCUs in a segment
  uint32_t blocks = 0;    // in an MCU
  // For each block of an MCU: its component, and its position in the MCU's part of that component,
  // in blocks.
  std::array<uint8_t, base::kMcuBlocksMax> component_of{};
  std::array<uint8_t, base::kMcuBlocksMax> x_of{};
  std::array<uint8_t, base::kMcuBlocksMax> y_of{};
  struct Component {
    uint32_t blocks = 0;     // in an MCU; 0 when there is no such component
    uint32_t side = 8;       // the side of a block, in samples
    uint32_t mcu_width = 8;  // samples
    uint32_t mcu_height = 8;
  };
  std::array<Component, 3> components;
  // Where the samples of the needed MCUs lie: at `plane_offsets` in a buffer of `samples_bytes`
  // bytes that begins at a cache line. The pointers of the planes are set later, when the buffer
  // exists.
  std::array<Plane, 3> planes{};
  std::array<size_t, 3> plane_offsets{};
  size_t samples_bytes = 0;
  bool whole_segments = false;  // same as Scan::whole_segments

  // Finds what `region` needs, including the samples around it that upsampling looks at. The region
  // is in pixels at the scale of the scan. `scan_bytes` is the number of bytes of the file after
  // its header. Returns false when anything is malformed; libjpeg-turbo then reports the error.
  bool find(const Scan& scan, size_t scan_bytes, const base::Rect& region);
  // The number of MCUs from the beginning of the image to the last needed one.
  uint32_t needed_mcus() const { return (bottom - 1) * across + right; }
  uint32_t needed_segments() const { return divide_up(needed_mcus(), interval); }
  // The end of the last MCU in [first, end) that the region needs; `first` when there is none.
  uint32_t needed_end(uint32_t first, uint32_t end) const;
  // The MCUs of the segment with this number; its data is not set.
  NeededSegment segment(uint32_t number) const;

 private:
  void find_mcus(const Scan& scan, const base::Rect& region);
  bool find_blocks(const Scan& scan);
  void find_planes(const Scan& scan);
};

// Returns the most bytes that `scan_data`, the file after its header, takes without stuffing and
// with padding.
size_t unstuffed_bytes_max(const RegionLayout& layout, Bytes scan_data);
// Copies the needed segments to `to` without stuffing, with kStreamPadding bytes after each, and
// adds them to `segments`. `kernel` is the best instruction set that may be used. Returns false
// under the same conditions as RegionLayout::find().
bool copy_segments(const RegionLayout& layout, Bytes scan_data, EntropyKernel kernel, uint8_t* to,
                   std::vector<NeededSegment>* segments);

}  // namespace forebay::jpeg
