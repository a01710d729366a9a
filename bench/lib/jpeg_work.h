// What bench/jpeg.cc measures with each entropy kernel, and what it measures it on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"

namespace forebay::bench {

struct JpegWork {
  std::vector<base::ByteVector> originals;
  // The same in the same order as `pack` would store them with shared and with private tables;
  // those that cannot be rewritten as they are.
  std::vector<base::ByteVector> packed;
  std::vector<base::ByteVector> packed_private;
  std::vector<base::ByteVector> small;  // packed
};

// What the crop of image `number` is drawn with.
inline base::Random random_of(size_t number) { return {1, base::Purpose::kTest, 0, number}; }

// Takes a figure's name and the figure.
using Report = std::function<void(const std::string& name, double figure)>;

// How much longer libjpeg-turbo takes; stops where results differ.
void compare_jpeg(const JpegWork& work, int rounds, const Report& report);
// Clock cycles of each stage of decoding.
void measure_stages(const JpegWork& work, int rounds, const Report& report);

}  // namespace forebay::bench
