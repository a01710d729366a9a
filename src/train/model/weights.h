// Reads and writes named tensors in safetensors files.
#pragma once

#include "io/file_system.h"
#include "train/format/safetensors.h"
#include "train/model/model.h"

namespace forebay::train {

// Encodes row-major copies of `tensors`. Errors: kUnsupported for types other than float32,
// bfloat16 and int64; those of encode_safetensors().
Result<ByteVector> encode_tensors(const std::vector<Named>& tensors,
                                  const std::map<std::string, std::string>& metadata);

// Copies the file's tensors into the `tensors` of the same names. All are checked before any is
// changed. Errors: kCorrupt when one is missing or has another type or shape. Further tensors in
// the file are ignored.
Status load_tensors(const Safetensors& from, const std::vector<Named>& tensors);

struct ReadWeights {
  uint32_t crc32c = 0;  // of the file
  // The tensors of the last layer that were left as they are, because the file has another number
  // of classes.
  std::vector<std::string> left_out;
};

// Loads a state_dict, as PyTorch's safetensors package saves it, into a model of so many classes.
// Errors are those of reading, decode_safetensors() and load_tensors().
Result<ReadWeights> read_weights(const io::Origin& origin, const std::string& path,
                                 const Model& model, int64_t classes);

// Returns the metadata of a safetensors file. Errors are those of reading and decode_safetensors().
Result<std::map<std::string, std::string>> read_metadata(const io::Origin& origin,
                                                         const std::string& path);

// Writes a state_dict that PyTorch's safetensors package can load.
Status write_weights(io::FileSystem& fs, const std::string& path, const Model& model,
                     std::map<std::string, std::string> metadata = {});

}  // namespace forebay::train
