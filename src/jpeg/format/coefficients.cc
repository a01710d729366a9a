#include "jpeg/format/coefficients.h"

namespace forebay::jpeg {

std::vector<ComponentBlocks> component_blocks(const Header& header) {
  std::vector<ComponentBlocks> out;
  for (size_t c = 0; c < static_cast<size_t>(header.component_count); ++c) {
    const bool alone = header.component_count == 1;
    const uint32_t across = alone ? 1 : header.components[c].horizontal;
    const uint32_t down = alone ? 1 : header.components[c].vertical;
    out.push_back({.across = across,
                   .down = down,
                   .width = divide_up(header.width * across, header.mcu_width()),
                   .height = divide_up(header.height * down, header.mcu_height())});
  }
  return out;
}

}  // namespace forebay::jpeg
