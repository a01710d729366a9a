// deps: forebay_store
// Decodes any bytes as an index of data in place with a correct checksum. The result must be an
// error, or an index that encodes to the same bytes.
#include "store/format/in_place_index.h"

using namespace forebay;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  base::ByteVector bytes(data, data + size);
  const base::Bytes content = base::Bytes(bytes).first(size - 4);
  base::store_le(bytes.data() + size - 4, base::crc32c(content));
  const auto index = store::decode_in_place_index(bytes);
  if (index) FOREBAY_CHECK(store::encode_in_place_index(*index) == bytes);
  return 0;
}
