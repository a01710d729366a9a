// Checksums: CRC32C against damage (ISA-L), SHA-256 as the name of content (OpenSSL).
#pragma once

#include <array>
#include <memory>

#include "base/bytes.h"

namespace forebay::base {

// CRC-32C (Castagnoli) of `data`, as iSCSI and Parquet count it; `seed` is the CRC of what came
// before.
uint32_t crc32c(Bytes data, uint32_t seed = 0);

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(Bytes data);
std::string to_hex(Bytes data);
// 64 hexadecimal digits in lower case; anything else is an error.
Result<Sha256> sha256_from_hex(std::string_view text);

// SHA-256 of bytes that come in pieces.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(Sha256Stream&&) noexcept;
  Sha256Stream& operator=(Sha256Stream&&) noexcept;
  void add(Bytes data);
  Sha256 finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::base
