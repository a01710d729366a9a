#include "jpeg/scan_end.h"

#include <algorithm>
#include <vector>

#include "jpeg/format/markers.h"
#include "jpeg/format/scan.h"
#include "jpeg/kernels/stuffing.h"

namespace forebay::jpeg {
namespace {

// Reads bits one by one. Speed does not matter, because few files have bytes after their scan.
class Bits {
 public:
  explicit Bits(Bytes bytes) : bytes_(bytes) {}
  uint64_t left() const { return bytes_.size() * 8 - at_; }
  // Requires left() > 0.
  uint32_t next() {
    const uint32_t bit = bytes_[at_ / 8] >> (7 - at_ % 8) & 1u;
    ++at_;
    return bit;
  }
  bool skip(uint32_t count) {
    if (left() < count) return false;
    at_ += count;
    return true;
  }
  // Whether all bits up to the end of the byte are ones.
  bool ends_in_ones() const {
    const auto unread = static_cast<uint32_t>(left() % 8);
    const uint32_t ones = (1u << unread) - 1;
    return unread == 0 || (bytes_[at_ / 8] & ones) == ones;
  }

 private:
  Bytes bytes_;
  uint64_t at_ = 0;
};

// Decodes symbols one by one (T.81 F.2.2.3).
class SymbolReader {
 public:
  explicit SymbolReader(const HuffmanTable& table) : table_(table) {}
  // Returns nothing when the bits are no code.
  std::optional<uint8_t> next(Bits& bits) const {
    uint32_t code = 0;
    uint32_t first_code = 0;
    uint32_t first = 0;  // rank of the first code of this length
    for (const uint8_t count : table_.bits) {
      if (bits.left() == 0) return std::nullopt;
      code = code << 1 | bits.next();
      if (code - first_code < count) return table_.values[first + code - first_code];
      first += count;
      first_code = (first_code + count) << 1;
    }
    return std::nullopt;
  }

 private:
  HuffmanTable table_;
};

class McuReader {
 public:
  explicit McuReader(const Scan& scan) {
    for (size_t c = 0; c < static_cast<size_t>(scan.component_count); ++c) {
      const ScanComponent& component = scan.components[c];
      components_.push_back({SymbolReader(table_of(scan.tables[component.dc])),
                             SymbolReader(table_of(scan.tables[component.ac])),
                             component.horizontal * component.vertical});
    }
  }
  // Skips one MCU. Returns false when the bits are no MCU.
  bool skip(Bits& bits) const {
    for (const Component& component : components_) {
      for (uint32_t i = 0; i < component.blocks; ++i) {
        if (!skip_block(component, bits)) return false;
      }
    }
    return true;
  }

 private:
  struct Component {
    SymbolReader dc;
    SymbolReader ac;
    uint32_t blocks = 1;
  };
  static bool skip_block(const Component& component, Bits& bits) {
    const auto difference = component.dc.next(bits);
    if (!difference || !bits.skip(*difference)) return false;
    for (uint32_t place = 1; place < 64; ++place) {
      const auto symbol = component.ac.next(bits);
      if (!symbol || !bits.skip(*symbol & 15u)) return false;
      if ((*symbol & 15) == 0 && *symbol != 0xF0) break;
      place += *symbol >> 4u;
    }
    return true;
  }

  std::vector<Component> components_;
};

// Returns the entropy-coded data of a scan, up to the marker that ends it, without fill bytes.
Bytes scan_data(Bytes file, int scan) {
  MarkerReader reader(file);
  for (int seen = 0; seen < scan;) {
    const auto marker = reader.next();
    if (!marker) return {};
    seen += marker->code == kSos ? 1 : 0;
  }
  const size_t begin = reader.position();
  reader.skip_scan();
  Bytes data = file.subspan(begin, reader.position() - begin);
  while (!data.empty() && data.back() == 0xFF) data = data.first(data.size() - 1);
  return data;
}

base::ByteVector without_stuffing(Bytes data) {
  base::ByteVector out;
  out.reserve(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    out.push_back(data[i]);
    if (data[i] == 0xFF) ++i;
  }
  return out;
}

bool are_zeros(Bytes bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

// Whether a restart segment, given without stuffing, holds exactly this many MCUs.
bool is_whole(Bytes segment, const McuReader& reader, uint32_t mcus) {
  Bits bits(segment);
  for (; mcus > 0; --mcus) {
    if (!reader.skip(bits)) return false;
  }
  if (bits.left() < 8 || are_zeros(segment.last(bits.left() / 8))) return true;
  if (!bits.ends_in_ones()) return false;
  while (reader.skip(bits)) {
    if (bits.left() < 8 && bits.ends_in_ones()) return false;
  }
  return true;
}

}  // namespace

bool ends_in_zeros(Bytes file, int scan, size_t rest_bytes) {
  const Bytes data = scan_data(file, scan);
  return rest_bytes <= data.size() && are_zeros(data.last(rest_bytes));
}

bool has_foreign_rests(Bytes file, const Header& header) {
  const auto scan = read_scan(file, header);
  if (!scan) return false;
  const McuReader reader(*scan);
  Bytes data = scan_data(file, 1);
  uint32_t left = header.mcu_count();
  const uint32_t interval = header.restart_interval == 0 ? left : header.restart_interval;
  while (left > 0) {
    const uint32_t mcus = std::min(interval, left);
    left -= mcus;
    const size_t end = left > 0 ? find_marker(data, 0) : data.size();
    Bytes segment = data.first(end);
    while (!segment.empty() && segment.back() == 0xFF) segment = segment.first(segment.size() - 1);
    if (!is_whole(without_stuffing(segment), reader, mcus)) return false;
    data = data.subspan(std::min(end + 2, data.size()));
  }
  return true;
}

}  // namespace forebay::jpeg
