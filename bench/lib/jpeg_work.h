// The tasks that bench/jpeg.cc measures with each entropy kernel, and the files that it uses.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"

namespace forebay::bench {

struct JpegWork {
  std::vector<base::ByteVector> originals;
  // The same files in the same order, as `forebay pack` would store them with shared and with
  // private tables. Files that cannot be rewritten are unchanged.
  std::vector<base::ByteVector> packed;
  std::vector<base::ByteVector> packed_private;
  std::vector<base::ByteVector> small;  // small images, packed
};

// Returns the random numbers for the crop of image `number`.
inline base::Random random_of(size_t number) { return {1, base::Purpose::kTest, 0, number}; }

// Receives the name of a figure and its value.
using Report = std::function<void(const std::string& name, double figure)>;

// Reports how much longer libjpeg-turbo takes. Stops the program when results differ.
void compare_jpeg(const JpegWork& work, int rounds, const Report& report);
// Reports the clock cycles of each stage of decoding.
void measure_stages(const JpegWork& work, int rounds, const Report& report);

}  // namespace forebay::bench
