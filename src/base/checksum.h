// Checksums: CRC32C detects damage (computed by ISA-L), SHA-256 names content (computed by
// OpenSSL).
#pragma once

#include <array>
#include <memory>

#include "base/bytes.h"

namespace forebay::base {

// Returns the CRC-32C (Castagnoli) of `data`, the variant that iSCSI and Parquet use. `seed` is the
// CRC of the bytes before `data`.
uint32_t crc32c(Bytes data, uint32_t seed = 0);

// Computes the CRC-32C of two runs of bytes together from the CRCs of the first and of the second
// run. The second run has `second_bytes` bytes.
class Crc32cJoin {
 public:
  explicit Crc32cJoin(uint64_t second_bytes);
  uint32_t operator()(uint32_t first, uint32_t second) const;

 private:
  uint32_t factor_;
};

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(Bytes data);
std::string to_hex(Bytes data);
// Parses 64 hexadecimal digits in lower case. kCorrupt for anything else.
Result<Sha256> sha256_from_hex(std::string_view text);

// Computes the SHA-256 of bytes that arrive in pieces.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(Sha256Stream&&) noexcept;
  Sha256Stream& operator=(Sha256Stream&&) noexcept;
  void add(Bytes data);
  Sha256 finish();  // may be called once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::base
