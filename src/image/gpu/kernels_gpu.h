// The kernels that make the samples of a batch from the bytes of its JPEGs, in the order in which
// they run. Each is a function of the number of a region (or sample) and of an item in it. All
// items are independent of each other: a GPU runs each in a thread, the host one after the other.
#pragma once

#include "jpeg/kernels/entropy_gpu.h"
#include "jpeg/kernels/idct_gpu.h"
#include "jpeg/kernels/rgb_rows_gpu.h"

namespace forebay::image::gpu {

// One axis of a resize, same meaning as image::Axis. Copies and nearest neighbours have one tap.
struct Axis {
  uint32_t count;  // outputs
  uint32_t taps;
  int32_t precision;
  uint32_t last;     // the last source pixel; taps after it have no weight
  uint64_t starts;   // the outputs' starts, in RoundArrays::numbers
  uint64_t weights;  // the outputs' weights, in RoundArrays::weights
};

struct Sample {
  uint32_t width;
  uint32_t height;
  uint64_t out;  // the address of the sample
  // The erased part [left, right) x [top, bottom) of the sample. Its numbers are
  // RoundArrays::erased or, when `patched`, those from `patch` on in RoundArrays::patches, laid out
  // like a sample.
  uint32_t erased_left;
  uint32_t erased_right;
  uint32_t erased_top;
  uint32_t erased_bottom;
  bool patched;
  uint64_t patch;
  bool zero;  // the sample is all zeros, and other fields are not used
  // Where the bytes of a sample that the host made begin in RoundArrays::made. Such a sample has no
  // region, and the fields below are not used.
  uint64_t made;
  Axis across;
  Axis down;
  // Where the rows after the first pass begin: three planes of region.height rows.
  uint64_t between;
  // Where two lists begin in RoundArrays::numbers. They hold, for each column and each row, the
  // output of the resize that it shows, or -1 for the border.
  uint64_t columns;
  uint64_t rows;
  uint8_t border[3];  // the colour of the border
};

// What the kernels read and write. All pointers point to GPU memory.
struct RoundArrays {
  uint32_t count;         // samples
  uint32_t region_count;  // the first region_count samples have a region each
  uint32_t segment_count;
  const jpeg::gpu::Region* regions;
  const Sample* samples;
  const jpeg::gpu::SegmentTask* segments;
  const jpeg::gpu::HuffmanLookup* lookups;
  const uint32_t* bits;
  const uint8_t* made;
  const uint8_t* patches;
  const int32_t* numbers;
  const int16_t* weights;
  // Intermediate results.
  int16_t* coefficients;  // must be zero before
  uint8_t* planes;
  uint8_t* pixels;
  uint8_t* between;
  uint32_t* bad;  // for each region, whether it is malformed; is sent as 0
  // Properties of all samples.
  bool planar;             // otherwise interleaved
  uint32_t number_bytes;   // bytes of a number: 1, 2 or 4
  const uint32_t* values;  // what each byte becomes, for each channel: 3 x 256
  uint32_t erased[3];      // what an erased pixel becomes
};

// The arguments of one run of all kernels: the job and its extent.
struct KernelArguments {
  RoundArrays job;
  uint64_t sent_begin;  // where the job begins in the memory that is sent
  uint64_t sent_bytes;
  uint64_t coefficients_bytes;
  // The largest number of items of any region or sample.
  uint32_t blocks_max;
  uint32_t quads_max;
  uint32_t between_max;
  uint32_t outputs_max;
};

// An item is a segment. The kernel runs once for all regions. `ring` is memory of the thread for
// jpeg::gpu::RingReader, with its words `stride` apart.
struct DecodeSegments {
  RoundArrays job;
  FOREBAY_GPU void operator()(uint32_t item, uint32_t* ring, uint32_t stride) const {
    const jpeg::gpu::SegmentTask& segment = job.segments[item];
    const jpeg::gpu::Region& region = job.regions[segment.region];
    const uint32_t* const words =
        segment.words == 0 ? job.bits : reinterpret_cast<const uint32_t*>(segment.words);
    const jpeg::gpu::RingReader bits(ring, stride, words, segment.bit, segment.end_bit);
    if (!jpeg::gpu::decode_segment(segment, region, job.lookups, bits,
                                   job.coefficients + region.coefficients)) {
      job.bad[segment.region] = 1;
    }
  }
};

// An item is a block.
struct TransformBlocks {
  RoundArrays job;
  FOREBAY_GPU void operator()(uint32_t number, uint32_t item) const {
    const jpeg::gpu::Region& region = job.regions[number];
    if (item >= region.needed_blocks()) return;
    jpeg::gpu::make_samples(region, item, job.coefficients + region.coefficients, job.planes);
  }
};

// An item is jpeg::gpu::kTogether neighbouring pixels of a row.
struct MakePixels {
  RoundArrays job;
  FOREBAY_GPU void operator()(uint32_t number, uint32_t item) const {
    const jpeg::gpu::Region& region = job.regions[number];
    const uint32_t quads = region.pixel_stride() / jpeg::gpu::kTogether;
    if (item >= quads * region.height) return;
    jpeg::gpu::make_pixels(region, job.planes, item % quads, item / quads, job.pixels);
  }
};

// The weights of an output of an axis, and the source pixel that the first one is for.
struct Weights {
  const int16_t* values;
  uint32_t start;
  uint32_t taps;  // the taps inside the source

  FOREBAY_GPU Weights(const Axis& axis, const RoundArrays& job, uint32_t output)
      : values(job.weights + axis.weights + uint64_t{output} * axis.taps),
        start(static_cast<uint32_t>(job.numbers[axis.starts + output])),
        taps(axis.last + 1 - start < axis.taps ? axis.last + 1 - start : axis.taps) {}
};
FOREBAY_GPU inline int32_t half_of(const Axis& axis) { return 1 << (axis.precision - 1); }
FOREBAY_GPU inline uint8_t limited(int32_t sum, const Axis& axis) {
  sum >>= axis.precision;
  return static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

// An item is an output of the first pass: a kept column in kRows neighbouring rows of the region.
struct ResizeAcross {
  static constexpr uint32_t kRows = 4;
  RoundArrays job;
  FOREBAY_GPU void operator()(uint32_t number, uint32_t item) const {
    const jpeg::gpu::Region& region = job.regions[number];
    const Sample& sample = job.samples[number];
    const uint32_t columns = sample.across.count;
    const uint32_t column = item % columns;
    const uint32_t first = item / columns * kRows;
    if (first >= region.height) return;
    const Weights weights(sample.across, job, column);
    const uint32_t stride = region.pixel_stride();
    const uint8_t* const from = job.pixels + region.pixels + region.pixels_before() + weights.start;
    const uint8_t* rows[3][kRows];
    int32_t sums[3][kRows];
    for (uint32_t c = 0; c < 3; ++c) {
      for (uint32_t r = 0; r < kRows; ++r) {
        const uint32_t row = first + r < region.height ? first + r : region.height - 1;
        rows[c][r] = from + uint64_t{c} * region.plane_bytes() + uint64_t{row} * stride;
        sums[c][r] = half_of(sample.across);
      }
    }
    for (uint32_t tap = 0; tap < weights.taps; ++tap) {
      const int32_t weight = weights.values[tap];
      for (uint32_t c = 0; c < 3; ++c) {
        for (uint32_t r = 0; r < kRows; ++r) sums[c][r] += weight * rows[c][r][tap];
      }
    }
    uint8_t* const to = job.between + sample.between + uint64_t{first} * columns + column;
    for (uint32_t c = 0; c < 3; ++c) {
      for (uint32_t r = 0; r < kRows && first + r < region.height; ++r) {
        to[(uint64_t{c} * region.height + r) * columns] = limited(sums[c][r], sample.across);
      }
    }
  }
};

// An item is a pixel of the sample: second pass, border, erasing and normalising. Writes zeros when
// the region was bad.
struct WriteSamples {
  RoundArrays job;
  FOREBAY_GPU void operator()(uint32_t number, uint32_t item) const {
    const Sample& sample = job.samples[number];
    if (item >= sample.width * sample.height) return;
    const uint32_t x = item % sample.width;
    const uint32_t y = item / sample.width;
    const bool zero = sample.zero || (number < job.region_count && job.bad[number] != 0);
    const bool erased = x >= sample.erased_left && x < sample.erased_right &&
                        y >= sample.erased_top && y < sample.erased_bottom;
    uint32_t values[3] = {0, 0, 0};
    if (!zero && erased) {
      for (uint32_t c = 0; c < 3; ++c) {
        values[c] = erased_at(sample, c, x - sample.erased_left, y - sample.erased_top);
      }
    } else if (!zero) {
      uint8_t bytes[3];
      find_bytes(number, x, y, bytes);
      for (uint32_t c = 0; c < 3; ++c) values[c] = job.values[c * 256 + bytes[c]];
    }
    for (uint32_t c = 0; c < 3; ++c) {
      store(sample.out, place(sample.width, sample.height, c, x, y), values[c]);
    }
  }

 private:
  // Returns where a number lies in a sample of this size.
  FOREBAY_GPU uint64_t place(uint32_t width, uint32_t height, uint32_t c, uint32_t x,
                             uint32_t y) const {
    const uint64_t pixel = uint64_t{y} * width + x;
    return job.planar ? uint64_t{c} * width * height + pixel : pixel * 3 + c;
  }
  // Returns the number at column x and row y of the erased part.
  FOREBAY_GPU uint32_t erased_at(const Sample& sample, uint32_t c, uint32_t x, uint32_t y) const {
    if (!sample.patched) return job.erased[c];
    const uint32_t width = sample.erased_right - sample.erased_left;
    const uint32_t height = sample.erased_bottom - sample.erased_top;
    return load(job.patches, sample.patch + place(width, height, c, x, y));
  }
  FOREBAY_GPU void find_bytes(uint32_t number, uint32_t x, uint32_t y, uint8_t (&out)[3]) const {
    const Sample& sample = job.samples[number];
    if (number >= job.region_count) {
      const uint8_t* const made = job.made + sample.made;
      for (uint32_t c = 0; c < 3; ++c) out[c] = made[place(sample.width, sample.height, c, x, y)];
      return;
    }
    const int32_t column = job.numbers[sample.columns + x];
    const int32_t row = job.numbers[sample.rows + y];
    if (column < 0 || row < 0) {
      for (uint32_t c = 0; c < 3; ++c) out[c] = sample.border[c];
      return;
    }
    const Weights weights(sample.down, job, static_cast<uint32_t>(row));
    const uint32_t columns = sample.across.count;
    const uint64_t plane = uint64_t{columns} * job.regions[number].height;
    const uint8_t* const from = job.between + sample.between + uint64_t{weights.start} * columns +
                                static_cast<uint32_t>(column);
    int32_t sums[3];
    for (uint32_t c = 0; c < 3; ++c) sums[c] = half_of(sample.down);
    for (uint32_t tap = 0; tap < weights.taps; ++tap) {
      const int32_t weight = weights.values[tap];
      const uint8_t* const at = from + uint64_t{tap} * columns;
      for (uint32_t c = 0; c < 3; ++c) sums[c] += weight * at[c * plane];
    }
    for (uint32_t c = 0; c < 3; ++c) out[c] = limited(sums[c], sample.down);
  }
  FOREBAY_GPU uint32_t load(const uint8_t* from, uint64_t at) const {
    if (job.number_bytes == 4) return reinterpret_cast<const uint32_t*>(from)[at];
    if (job.number_bytes == 2) return reinterpret_cast<const uint16_t*>(from)[at];
    return from[at];
  }
  FOREBAY_GPU void store(uint64_t out, uint64_t at, uint32_t value) const {
    if (job.number_bytes == 4) {
      reinterpret_cast<uint32_t*>(out)[at] = value;
    } else if (job.number_bytes == 2) {
      reinterpret_cast<uint16_t*>(out)[at] = static_cast<uint16_t>(value);
    } else {
      reinterpret_cast<uint8_t*>(out)[at] = static_cast<uint8_t>(value);
    }
  }
};

}  // namespace forebay::image::gpu
