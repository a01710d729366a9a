// The quantised coefficients of a whole JPEG with any coding. The rewrite reads them and codes them
// anew.
#pragma once

#include <vector>

#include "jpeg/format/header.h"

namespace forebay::jpeg {

struct Coefficients {
  // The quantisation table of each component, in zigzag order.
  std::array<std::array<uint16_t, 64>, 3> quant{};
  // 64 coefficients for each block, in zigzag order. Blocks are in the order of an interleaved scan
  // of all components, MCU by MCU. Blocks that only fill up MCUs have no meaning.
  std::vector<int16_t> blocks;
};

// How the blocks of a component lie in the MCUs of an interleaved scan. A single component has one
// block in each MCU (T.81 A.2).
struct ComponentBlocks {
  uint32_t across = 1;  // blocks in a row of an MCU
  uint32_t down = 1;
  uint32_t width = 0;  // blocks of the component; blocks beyond only fill up MCUs
  uint32_t height = 0;
};
std::vector<ComponentBlocks> component_blocks(const Header& header);

}  // namespace forebay::jpeg
