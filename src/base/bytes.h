// Bytes in memory: spans, little-endian numbers, checked sums and products, a reader that never
// leaves its bounds, and a writer. Reading and writing files is in io/.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"

namespace forebay::base {

using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;
using ByteVector = std::vector<uint8_t>;

static_assert(std::endian::native == std::endian::little, "stored formats are little-endian");

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
T load_le(const uint8_t* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void store_le(uint8_t* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

// Returns the smallest multiple of `unit` that is at least `bytes`. Both must be far below 2^64.
constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Return a + b and a * b, or nothing when the result does not fit 64 bits.
inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}
inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}
// Whether [offset, offset + length) lies inside [0, size).
inline bool in_bounds(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

// Appends numbers and bytes to a vector.
class ByteWriter {
 public:
  explicit ByteWriter(ByteVector* out) : out_(out) {}
  template <class T>
  void number(T value) {
    const size_t at = out_->size();
    out_->resize(at + sizeof(T));
    store_le(out_->data() + at, value);
  }
  void bytes(Bytes data) { out_->insert(out_->end(), data.begin(), data.end()); }
  // Writes a u32 length, then the bytes.
  void sized(std::string_view text) {
    number(static_cast<uint32_t>(text.size()));
    bytes(as_bytes(text));
  }
  void pad_to(size_t alignment) {
    out_->resize((out_->size() + alignment - 1) / alignment * alignment);
  }

 private:
  ByteVector* out_;
};

// Reads numbers and bytes from a span and never past its end. After a read that did not fit, `ok()`
// is false and every later read returns zeros, so a decoder needs only one check per record.
class ByteReader {
 public:
  explicit ByteReader(Bytes data) : data_(data) {}
  bool ok() const { return ok_; }
  size_t position() const { return position_; }
  size_t remaining() const { return data_.size() - position_; }
  template <class T>
  T number() {
    const Bytes raw = bytes(sizeof(T));
    return ok_ ? load_le<T>(raw.data()) : T{};
  }
  Bytes bytes(uint64_t length) {
    if (!ok_ || length > remaining()) {
      ok_ = false;
      return {};
    }
    const Bytes out = data_.subspan(position_, static_cast<size_t>(length));
    position_ += out.size();
    return out;
  }
  // Reads a u32 length of at most `limit`, then that many bytes.
  std::string_view sized(size_t limit) {
    const auto length = number<uint32_t>();
    if (length > limit) ok_ = false;
    return as_text(bytes(length));
  }

 private:
  Bytes data_;
  size_t position_ = 0;
  bool ok_ = true;
};

// Formats a size for messages in decimal units: 1536 becomes "1.5 KB", 64000000 becomes "64.0 MB".
std::string human_bytes(uint64_t bytes);
// Formats a number with an English noun for messages: "1 chunk", "2 chunks", "3 classes". The
// plural must be regular.
std::string counted(uint64_t number, std::string_view noun);

}  // namespace forebay::base
