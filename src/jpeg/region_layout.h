// What a region needs of the one scan of a sequential JPEG: which MCUs, in which restart segments,
// and where the samples of its components lie.
#pragma once

#include <vector>

#include "jpeg/entropy.h"
#include "jpeg/plane.h"
#include "jpeg/scan.h"

namespace forebay::jpeg {

inline constexpr size_t kCacheLine = 64;  // bytes

// A restart segment that a region needs.
struct NeededSegment {
  const uint8_t* data = nullptr;  // without stuffing
  uint64_t bytes = 0;
  uint32_t first_mcu = 0;
  uint32_t end_mcu = 0;    // behind the last one that is needed; the first one: none is
  uint32_t whole_end = 0;  // behind its last one
};

struct RegionLayout {
  uint32_t across = 0;  // MCUs of the image
  uint32_t mcus = 0;
  uint32_t left = 0;  // MCUs that the region needs: [left, right) x [top, bottom)
  uint32_t right = 0;
  uint32_t top = 0;
  uint32_t bottom = 0;
  uint32_t interval = 0;  // MCUs of a segment
  uint32_t blocks = 0;    // of an MCU
  // Each block of an MCU: its component, and its place in that component's part, in blocks.
  std::array<uint8_t, kMcuBlocksMax> component_of{};
  std::array<uint8_t, kMcuBlocksMax> x_of{};
  std::array<uint8_t, kMcuBlocksMax> y_of{};
  struct Component {
    uint32_t blocks = 0;     // of an MCU; 0: there is no such component
    uint32_t side = 8;       // of a block, in samples
    uint32_t mcu_width = 8;  // samples
    uint32_t mcu_height = 8;
  };
  std::array<Component, 3> components;
  // Samples of the needed MCUs, `plane_offsets` into `samples_bytes` of memory that begins with a
  // cache line; whose memory that is, the planes do not know yet.
  std::array<Plane, 3> planes{};
  std::array<size_t, 3> plane_offsets{};
  size_t samples_bytes = 0;
  bool whole_segments = false;  // as in Scan

  // Finds what `region`, in pixels of the scan's scale, needs, the samples around it that
  // upsampling looks at included. `scan_bytes`: of the file, behind its header. False when anything
  // is not quite in order: libjpeg-turbo then says what it is.
  bool find(const Scan& scan, size_t scan_bytes, const base::Rect& region);
  // From the image's beginning to the last one that the region needs.
  uint32_t needed_mcus() const { return (bottom - 1) * across + right; }
  uint32_t needed_segments() const { return divide_up(needed_mcus(), interval); }
  // Behind the last MCU of [first, end) that the region needs; `first` when there is none.
  uint32_t needed_end(uint32_t first, uint32_t end) const;
  // Its MCUs.
  NeededSegment segment(uint32_t number) const;

 private:
  void find_mcus(const Scan& scan, const base::Rect& region);
  bool find_blocks(const Scan& scan);
  void find_planes(const Scan& scan);
};

// Bytes that `scan_data`, the file behind its header, takes at most without stuffing.
size_t unstuffed_bytes_max(const RegionLayout& layout, Bytes scan_data);
// Copies them to `to`, kStreamPadding behind each, and adds them to `segments`. `kernel`: the best
// that may be used. False as RegionLayout::find().
bool copy_segments(const RegionLayout& layout, Bytes scan_data, EntropyKernel kernel, uint8_t* to,
                   std::vector<NeededSegment>* segments);

}  // namespace forebay::jpeg
