// safetensors files as bytes: a JSON header of names, types, shapes and offsets, then the tensors'
// bytes. A pure codec, without libtorch; https://huggingface.co/docs/safetensors has the format.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace forebay::train {

using base::Bytes;
using base::ByteVector;
using base::Result;
using base::Status;

// The format's names: "F32", "BF16", "I64" and so on.
using TensorType = std::string;

// Bytes of one element; 0 for a type that the format does not have.
uint64_t element_bytes(std::string_view type);

// One tensor, row-major, in memory that belongs to somebody else.
struct TensorView {
  std::string name;
  TensorType type;
  std::vector<int64_t> shape;
  Bytes data;
};

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::vector<TensorView> tensors;
};

// The file's bytes. Tensors are laid out by element size, largest first, then by name, so that
// each is aligned. Errors: kInvalid for a name that comes twice or is reserved, or data whose size
// is not what type and shape say; kTooBig.
Result<ByteVector> encode_safetensors(const Safetensors& content);

// The views point into `file`. Errors: kCorrupt for anything that is not exactly a safetensors
// file (offsets must tile the data with neither overlap nor gap), kTooBig.
Result<Safetensors> decode_safetensors(Bytes file);

}  // namespace forebay::train
