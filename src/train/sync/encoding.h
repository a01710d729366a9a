// How a message stores its numbers: as float32, or rounded in fewer bytes. The sender keeps the
// rounding error for a later message (error feedback), so that in the end nothing is lost.
#pragma once

#include <span>

#include "base/bytes.h"

namespace forebay::train {

enum class Encoding : uint8_t {
  kFloat32,
  // Blocks of 256 numbers, in which each number is a multiple, from -127 to 127, of the block's
  // scale. A block's bytes are the scale, a float32, and an int8 for each number.
  kInt8,
  // Like kInt8, but of each block only the 16 numbers with the largest absolute values are kept;
  // the others become zeros. A block's bytes are the scale, then a u8 with the position of each
  // number that is kept, then an int8 for each.
  kTop,
};
inline constexpr Encoding kLastEncoding = Encoding::kTop;
// How many numbers share a scale.
inline constexpr size_t kEncodedBlock = 256;

// Returns how many bytes `count` numbers take.
size_t encoded_bytes(Encoding encoding, size_t count);

// Returns the bytes of a number in a whole block, with its share of the scale.
double bytes_per_number(Encoding encoding);
// "float32", "int8" or "top"; null for other values.
constexpr const char* name_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFloat32:
      return "float32";
    case Encoding::kInt8:
      return "int8";
    case Encoding::kTop:
      return "top";
  }
  return nullptr;
}

// Writes encoded_bytes() bytes to `to`, and replaces `numbers` by the rounded numbers that the
// receiver will decode. A number that is not finite makes others of its block not finite. Encoding
// a list in parts, each of whole blocks but the last, gives the same bytes as encoding it at once.
void encode(Encoding encoding, std::span<float> numbers, uint8_t* to);

// Decodes encoded_bytes() bytes into `numbers`. The results may be not finite.
void decode(Encoding encoding, base::Bytes bytes, std::span<float> numbers);

}  // namespace forebay::train
