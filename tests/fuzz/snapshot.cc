// deps: forebay_store
// Reads any bytes as a HEAD, a root or a part with correct checksums; the first byte chooses which.
// The result must be an error, or a snapshot that answers queries.
#include "store/format/snapshot.h"

#include <array>

#include "io/testing/memory.h"
#include "store/snapshot_part.h"

namespace {

using namespace forebay;

void fuzz_root(base::ByteVector bytes) {
  if (bytes.size() < 4) return;
  const base::Bytes content = base::Bytes(bytes).first(bytes.size() - 4);
  base::store_le(bytes.data() + content.size(), base::crc32c(content));
  const auto root = store::decode_root(bytes);
  if (root) FOREBAY_CHECK(store::encode_root(*root) == bytes);
}

// Corrects every checksum of a part, so that only its meaning can be wrong.
base::Result<store::PartHeader> repair_part(base::ByteVector* bytes) {
  ASSIGN_OR_RETURN(const uint32_t length, store::decode_part_preamble(*bytes));
  if (length > bytes->size()) return base::fail(base::Code::kCorrupt, "short");
  const auto head = base::MutableBytes(*bytes).first(length);
  const auto seal = [&] {
    base::store_le(head.data() + length - 4, base::crc32c(head.first(length - 4)));
  };
  seal();
  ASSIGN_OR_RETURN(const store::PartHeader header, store::decode_part_header(head));
  if (header.file_bytes != bytes->size()) return base::fail(base::Code::kCorrupt, "size");
  uint8_t* crc = head.data() + length - 4 - 4 * header.block_crc32c.size();
  for (const auto& column : header.columns) {
    for (uint64_t at = 0; at < column.bytes; at += store::kPartBlockBytes, crc += 4) {
      const uint64_t piece = std::min(store::kPartBlockBytes, column.bytes - at);
      base::store_le(crc, base::crc32c(base::Bytes(*bytes).subspan(column.offset + at, piece)));
    }
  }
  seal();
  return store::decode_part_header(head);
}

// The samples' columns are read at open, as from a local disk, or when a chunk is asked for.
void fuzz_part(base::ByteVector bytes, bool reads_samples) {
  const auto header = repair_part(&bytes);
  if (!header) return;
  io::MemoryFileSystem fs;
  FOREBAY_CHECK(fs.make_dirs("/d").ok() && fs.put("/d/p", bytes).ok());
  const store::PartRef ref{.header = base::sha256(base::Bytes(bytes).first(header->header_bytes)),
                           .header_bytes = header->header_bytes,
                           .chunks = header->chunks,
                           .samples = header->samples,
                           .bytes = bytes.size()};
  const auto opened = store::Part::open(fs, "/d/p", ref, {.reads_samples = reads_samples});
  if (!opened) return;
  const store::Part& part = **opened;
  const auto chunks = static_cast<uint32_t>(std::min<size_t>(part.chunks().size(), 100));
  for (uint32_t i = 0; i < chunks; ++i) {
    const std::array chunk{i};
    if (!part.columns().load(chunk, {}).ok()) continue;
    FOREBAY_CHECK(part.columns().knows(i));
    const auto first = static_cast<uint32_t>(part.chunks()[i].first_sample);
    const store::Location location = part.columns().location(first);
    FOREBAY_CHECK(base::in_bounds(location.offset, location.length, part.chunks()[i].bytes));
  }
  for (uint32_t i = 0; i < std::min(part.samples(), 100U); ++i) {
    const auto key = part.key(i);
    if (key) FOREBAY_CHECK(!key->empty());
  }
  static_cast<void>(part.find("a").has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const base::ByteVector bytes(data + 1, data + size);
  switch (data[0] % 3) {
    case 0:
      fuzz_root(bytes);
      break;
    case 1:
      fuzz_part(bytes, data[0] < 128);
      break;
    default:
      if (const auto id = store::decode_head(base::as_text(bytes))) {
        FOREBAY_CHECK(store::encode_head(*id) == base::as_text(bytes));
      }
  }
  return 0;
}
