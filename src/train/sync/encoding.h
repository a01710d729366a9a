// How a message writes its numbers: as they are, or in fewer bytes. What these lose the sender
// knows, and keeps for a later message (error feedback), so that in the end nothing is lost.
#pragma once

#include <span>

#include "base/bytes.h"

namespace forebay::train {

enum class Encoding : uint8_t {
  kFloat32,
  // Blocks of 256 numbers, in which each number is a multiple, from -127 to 127, of the block's
  // scale. A block's bytes are the scale, a float32, and an int8 for each number.
  kInt8,
  // The same of the 16 largest numbers of each block, and zeros. A block's bytes are the scale, a
  // u8 for the position of each of these numbers, and an int8 for each.
  kTop,
};
inline constexpr Encoding kLastEncoding = Encoding::kTop;
// How many numbers share a scale.
inline constexpr size_t kEncodedBlock = 256;

// The bytes of so many numbers.
size_t encoded_bytes(Encoding encoding, size_t count);

// The bytes of one of many numbers, with its share of the scales.
double bytes_per_number(Encoding encoding);
// "float32", "int8" or "top".
const char* encoding_name(Encoding encoding);

// Writes encoded_bytes() of `numbers`, and turns the numbers into those that arrive. Numbers that
// are not finite make others of their block so. Lists that are encoded after each other, each of
// whole blocks but the last, have the same bytes as one list.
void encode(Encoding encoding, std::span<float> numbers, uint8_t* to);

// `bytes` has encoded_bytes() of `numbers`; the numbers may come out as not finite.
void decode(Encoding encoding, base::Bytes bytes, std::span<float> numbers);

}  // namespace forebay::train
