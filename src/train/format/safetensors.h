// Encodes and decodes safetensors files: a JSON header of names, types, shapes and offsets,
// followed by the tensors' bytes. This is a pure codec without libtorch;
// https://huggingface.co/docs/safetensors has the format.
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

// A type is called by the format's name for it: "F32", "BF16", "I64" and so on.
using TensorType = std::string;

// Gives the bytes of one element, or 0 for a type that the format does not have.
uint64_t element_bytes(std::string_view type);

// One row-major tensor in memory that belongs to the caller.
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

// Gives the file's bytes. Tensors are laid out by element size, largest first, and then by name, so
// that each is aligned. Errors: kInvalid for a repeated or reserved name, or for data whose size
// does not agree with type and shape; kTooBig.
Result<ByteVector> encode_safetensors(const Safetensors& content);

// Gives the file's content; the views point into `file`. Errors: kCorrupt for anything that is not
// exactly a safetensors file (offsets must tile the data with neither overlap nor gap); kTooBig.
Result<Safetensors> decode_safetensors(Bytes file);

}  // namespace forebay::train
