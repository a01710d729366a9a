#include "store/format/tar.h"

#include <algorithm>

#include "base/limits.h"

namespace forebay::store {

using base::ByteVector;

namespace {

constexpr size_t kNameBytes = 100;
constexpr size_t kPrefixBytes = 155;

struct SplitName {
  std::string_view prefix;
  std::string_view name;
};

// Splits a name for ustar's two fields, which readers join with a '/'. Empty if `name` does not
// fit.
std::optional<SplitName> split_name(std::string_view name) {
  if (name.size() <= kNameBytes) return SplitName{{}, name};
  // Splitting at the last slash that the prefix may reach leaves the shortest name.
  const size_t slash = name.rfind('/', kPrefixBytes);
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  if (name.size() - slash - 1 > kNameBytes) return std::nullopt;
  return SplitName{name.substr(0, slash), name.substr(slash + 1)};
}

// "27 path=some/long/name\n": the number counts all bytes of the record, including its own digits.
std::string pax_record(std::string_view name) {
  const size_t rest = std::string_view(" path=\n").size() + name.size();
  size_t total = rest + 1;
  while (std::to_string(total).size() + rest != total) {
    total = std::to_string(total).size() + rest;
  }
  return fmt::format("{} path={}\n", total, name);
}

void put(uint8_t* block, size_t at, std::string_view text) {
  std::copy(text.begin(), text.end(), block + at);
}

void append_header(const SplitName& name, uint64_t size, char type, ByteVector* out) {
  const size_t at = out->size();
  out->resize(at + kTarBlockBytes);
  uint8_t* block = out->data() + at;
  put(block, 0, name.name);
  put(block, 100, "0000644");
  put(block, 108, "0000000");
  put(block, 116, "0000000");
  put(block, 124, fmt::format("{:011o}", size));
  put(block, 136, "00000000000");
  put(block, 148, "        ");
  block[156] = static_cast<uint8_t>(type);
  put(block, 257, std::string_view("ustar\00000", 8));
  put(block, 329, "0000000");
  put(block, 337, "0000000");
  put(block, 345, name.prefix);
  uint32_t sum = 0;
  for (size_t i = 0; i < kTarBlockBytes; ++i) sum += block[i];
  put(block, 148, fmt::format("{:06o}", sum));
  block[154] = 0;
}

}  // namespace

void append_tar_header(std::string_view name, uint64_t size, ByteVector* out) {
  FOREBAY_CHECK(!name.empty() && name.size() <= base::kTarNameBytesMax && name.back() != '/' &&
                name.find('\0') == std::string_view::npos);
  FOREBAY_CHECK(size <= base::kTarMemberBytesMax);
  if (const auto split = split_name(name)) return append_header(*split, size, '0', out);
  const std::string record = pax_record(name);
  append_header({{}, "././@PaxHeader"}, record.size(), 'x', out);
  base::ByteWriter(out).bytes(base::as_bytes(record));
  append_tar_padding(record.size(), out);
  // A reader that does not know pax sees this shortened name; all others use the record above.
  append_header({{}, name.substr(0, kNameBytes)}, size, '0', out);
}

uint64_t tar_header_bytes(std::string_view name) {
  if (split_name(name)) return kTarBlockBytes;
  const size_t record = pax_record(name).size();
  return 2 * kTarBlockBytes + record + tar_padding_bytes(record);
}

}  // namespace forebay::store
