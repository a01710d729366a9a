// Reads and writes named tensors in safetensors files.
#pragma once

#include "io/file_system.h"
#include "train/format/safetensors.h"
#include "train/model/model.h"

namespace forebay::train {

// Gives row-major copies of `tensors`, encoded. Errors are those of encode_safetensors().
Result<ByteVector> encode_tensors(const std::vector<Named>& tensors,
                                  const std::map<std::string, std::string>& metadata);

// Copies the file's tensors into `tensors`, matched by name. All of them are checked before any is
// changed. Errors: kCorrupt when one is missing or has another type or shape. Names that only the
// file has are ignored.
Status load_tensors(const Safetensors& from, const std::vector<Named>& tensors);

// Fills the model from a state_dict in the form that PyTorch's safetensors package saves; gives the
// file's CRC32C. Errors are those of load_tensors(), with the path.
Result<uint32_t> read_weights(const io::Origin& origin, const std::string& path,
                              const Model& model);

// Writes a state_dict that PyTorch's safetensors package loads.
Status write_weights(io::FileSystem& fs, const std::string& path, const Model& model);

}  // namespace forebay::train
