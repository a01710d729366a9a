// deps: forebay_store
// Decodes any bytes as a chunk index with a correct checksum. The result must be an error, or an
// index that is the same after encoding and decoding it again.
#include "store/format/chunk_index.h"

#include "base/checksum.h"

using namespace forebay;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  base::ByteVector bytes(data, data + size);
  const base::Bytes content = base::Bytes(bytes).first(size - 4);
  base::store_le(bytes.data() + size - 4, base::crc32c(content));
  constexpr uint64_t kChunkBytes = 1 << 20;
  const auto index = store::decode_chunk_index(bytes, kChunkBytes);
  if (!index) return 0;
  const auto again = store::decode_chunk_index(store::encode_chunk_index(*index), kChunkBytes);
  FOREBAY_CHECK(again && *again == *index);
  return 0;
}
