// Numbers of the standard normal distribution for whole areas of noise.
#pragma once

#include "base/random.h"

namespace forebay::image {

// A stream of independent numbers, which are the same bits on every machine. It uses the blocks of
// `random` from the next whole block on.
class Normals {
 public:
  explicit Normals(const base::Random& random) : place_(random.next_block()) {}
  float next() {
    if (at_ == numbers_.size()) refill();
    return numbers_[at_++];
  }

 private:
  void refill();

  base::Random::BlockInput place_;
  std::array<float, 256> numbers_;
  size_t at_ = numbers_.size();
};

}  // namespace forebay::image
