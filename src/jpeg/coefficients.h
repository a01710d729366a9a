// The quantised coefficients of a JPEG, of whatever coding, before they are written anew.
#pragma once

#include <vector>

#include "jpeg/header.h"

namespace forebay::jpeg {

struct Coefficients {
  // Of each component, in zigzag order.
  std::array<std::array<uint16_t, 64>, 3> quant{};
  // 64 for each block, in zigzag order; the blocks MCU by MCU, as an interleaved scan of all
  // components has them. Those that only fill MCUs up mean nothing.
  std::vector<int16_t> blocks;
};

// How a component's blocks lie in the MCUs of an interleaved scan; a component that is alone has
// one block in each: T.81 A.2.
struct ComponentBlocks {
  uint32_t across = 1;  // of an MCU
  uint32_t down = 1;
  uint32_t width = 0;  // of the component; blocks beyond fill MCUs up
  uint32_t height = 0;
};
std::vector<ComponentBlocks> component_blocks(const Header& header);

}  // namespace forebay::jpeg
