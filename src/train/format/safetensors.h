// Encodes and decodes safetensors files: a JSON header with names, types, shapes and offsets, then
// the tensors' bytes. A pure codec without libtorch. https://huggingface.co/docs/safetensors
// describes the format.
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

// The format's name of a type: "F32", "BF16", "I64" and so on.
using TensorType = std::string;

// Returns the bytes of one element, or 0 if the format has no such type.
uint64_t element_bytes(std::string_view type);

// A row-major tensor in the caller's memory.
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

// Returns the file's bytes. Tensors are sorted by element size, largest first, then by name, so
// that each is aligned. Errors: kInvalid for a repeated or reserved name, or for data whose size
// does not match type and shape; kTooBig.
Result<ByteVector> encode_safetensors(const Safetensors& content);

// Returns the file's content; the views point into `file`. Errors: kCorrupt for a malformed file,
// also if its tensors overlap or leave gaps in the data; kTooBig.
Result<Safetensors> decode_safetensors(Bytes file);

}  // namespace forebay::train
