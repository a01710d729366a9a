// deps: forebay_store
// Reads any bytes as a tar archive. The result must be an error or members inside the file, and
// never a crash or a hang.
#include "store/format/tar.h"

#include "io/blocking_file.h"
#include "store/source/tar_reader.h"

namespace {

using namespace forebay;

class BytesFile final : public io::BlockingFile {
 public:
  explicit BytesFile(base::Bytes data)
      : BlockingFile("fuzz.tar", {.size = data.size()}), data_(data) {}

 private:
  base::Result<size_t> read_some(uint64_t offset, base::MutableBytes out) const override {
    FOREBAY_CHECK(base::in_bounds(offset, out.size(), data_.size()));
    std::copy_n(data_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return out.size();
  }

  const base::Bytes data_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The first byte decides whether checksums of aligned blocks are repaired.
  if (size == 0) return 0;
  base::ByteVector bytes(data + 1, data + size);
  for (size_t at = 0; data[0] % 2 == 1 && at + 512 <= bytes.size(); at += 512) {
    if (bytes[at + 257] != 'u') continue;
    uint32_t sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? 0U : bytes[at + i];
    const std::string digits = fmt::format("{:06o}", sum);
    std::copy(digits.begin(), digits.end(), bytes.begin() + static_cast<ptrdiff_t>(at) + 148);
    bytes[at + 154] = 0;
  }
  const BytesFile file(bytes);
  store::TarReader reader(file);
  for (;;) {
    const auto member = reader.next();
    if (!member || !*member) break;
    FOREBAY_CHECK(base::in_bounds((*member)->offset, (*member)->size, bytes.size()));
    FOREBAY_CHECK(!(*member)->name.empty());
  }
  return 0;
}
