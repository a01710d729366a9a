#include "jpeg/rewrite/coefficient_reader.h"

#include <algorithm>

#include "jpeg/format/zigzag.h"

namespace forebay::jpeg {
namespace {

using base::Code;
using base::fail;

// Images with fewer MCUs have too few ranges to decode side by side, so libjpeg-turbo reads them.
constexpr uint32_t kOwnMcusMin = 128;

// Refuses what baseline cannot express. A scan that libjpeg would smooth (a progressive file
// without its last scans) gives other pixels when it is written as baseline, and a table that
// changed between scans cannot be written as one table.
Status check(const jpeg_decompress_struct& info) {
  for (int c = 0; c < info.num_components; ++c) {
    for (int k = 0; info.progressive_mode && info.coef_bits != nullptr && k < 10; ++k) {
      if (info.coef_bits[c][k] != 0) {
        return fail(Code::kUnsupported, "JPEG: progressive, and its last scans are missing");
      }
    }
    const jpeg_component_info& component = info.comp_info[c];
    const JQUANT_TBL* used = component.quant_table;
    const JQUANT_TBL* last = info.quant_tbl_ptrs[component.quant_tbl_no];
    if (used == nullptr || last == nullptr || std::ranges::count(used->quantval, 0) == DCTSIZE2) {
      return fail(Code::kCorrupt, "JPEG: component {}: quantisation table missing or zero", c);
    }
    if (std::ranges::count(used->quantval, 0) != 0) {
      return fail(Code::kUnsupported, "JPEG: a quantisation table has zeros");
    }
    if (!std::ranges::equal(used->quantval, last->quantval)) {
      return fail(Code::kUnsupported, "JPEG: a quantisation table changes between scans");
    }
  }
  return {};
}

// Copies coefficients from libjpeg's arrays. Nothing here may have a destructor: see
// TurboReader::run().
struct Copy {
  jpeg_decompress_struct& info;
  jvirt_barray_ptr* arrays;
  std::span<const ComponentBlocks> components;
  uint32_t mcus_across;
  int16_t* to;

  // Copies one component of one row of MCUs. `first` is the index of its first block in an MCU;
  // `blocks` is the number of blocks in an MCU.
  void row(size_t c, uint32_t mcu_y, uint32_t first, uint32_t blocks) const {
    const ComponentBlocks& component = components[c];
    for (uint32_t v = 0; v < component.down; ++v) {
      const uint32_t y = mcu_y * component.down + v;
      if (y >= component.height) break;
      const JBLOCKROW from = *info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info),
                                                           arrays[c], y, 1, FALSE);
      for (uint32_t x = 0; x < component.width; ++x) {
        const size_t mcu = size_t{mcu_y} * mcus_across + x / component.across;
        const size_t block = mcu * blocks + first + v * component.across + x % component.across;
        for (size_t k = 0; k < 64; ++k) to[block * 64 + k] = from[x][kZigzagToNatural[k]];
      }
    }
  }
};

uint32_t blocks_of_mcu(std::span<const ComponentBlocks> components) {
  uint32_t blocks = 0;
  for (const ComponentBlocks& component : components) blocks += component.across * component.down;
  return blocks;
}

}  // namespace

Status CoefficientReader::read(Bytes file, const Header& header, Coefficients* out) {
  if (decode(file, header, out)) return {};
  RETURN_IF_ERROR(turbo_.open(file, header));
  Status status = read_by_turbo(header, out);
  turbo_.close();
  if (status.ok() && turbo_.found_foreign_bytes()) {
    return fail(Code::kUnsupported, "JPEG: bytes after its scan that do not belong to it");
  }
  return status;
}

// Returns false when libjpeg-turbo should read the file, or it is damaged.
bool CoefficientReader::decode(Bytes file, const Header& header, Coefficients* out) {
  if (header.mcu_count() < kOwnMcusMin) return false;
  const auto scan = read_scan(file, header);
  if (!scan) return false;
  const base::Rect all{0, 0, header.width, header.height};
  decoder_.begin();
  if (decoder_.add(*scan, file, all, true, &out->blocks) != RegionBatch::Added::kYes) return false;
  decoder_.run();
  for (size_t c = 0; c < static_cast<size_t>(scan->component_count); ++c) {
    out->quant[c] = scan->components[c].quant;
  }
  return decoder_.good(0);
}

Status CoefficientReader::read_by_turbo(const Header& header, Coefficients* out) {
  jvirt_barray_ptr* arrays = nullptr;
  RETURN_IF_ERROR(turbo_.run(
      [&arrays](jpeg_decompress_struct& info) { arrays = jpeg_read_coefficients(&info); }));
  RETURN_IF_ERROR(check(turbo_.info()));
  const auto components = component_blocks(header);
  const uint32_t blocks = blocks_of_mcu(components);
  out->blocks.resize(size_t{header.mcu_count()} * blocks * 64);
  for (size_t c = 0; c < components.size(); ++c) {
    const auto& values = turbo_.info().comp_info[c].quant_table->quantval;
    for (size_t k = 0; k < 64; ++k) out->quant[c][k] = values[kZigzagToNatural[k]];
  }
  return turbo_.run([&, blocks](jpeg_decompress_struct& info) {
    const Copy copy{info, arrays, components, header.mcus_across(), out->blocks.data()};
    for (uint32_t y = 0; y < header.mcus_down(); ++y) {
      uint32_t first = 0;
      for (size_t c = 0; c < components.size(); ++c) {
        copy.row(c, y, first, blocks);
        first += components[c].across * components[c].down;
      }
    }
  });
}

}  // namespace forebay::jpeg
