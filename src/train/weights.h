// Named tensors to and from safetensors files.
#pragma once

#include "io/file_system.h"
#include "train/model.h"
#include "train/safetensors.h"

namespace forebay::train {

// Row-major copies of `tensors`, encoded. Errors as encode_safetensors.
Result<ByteVector> encode_tensors(const std::vector<Named>& tensors,
                                  const std::map<std::string, std::string>& metadata);

// Copies the file's tensors into `tensors`, matched by name. All of them are checked before any is
// changed. kCorrupt: one is missing, or has another type or shape. Names that only the file has
// are ignored.
Status load_tensors(const Safetensors& from, const std::vector<Named>& tensors);

// Fills the model from a state_dict as PyTorch's safetensors package saves it; gives the file's
// CRC32C. Errors as load_tensors, with the path.
Result<uint32_t> read_weights(const io::FileSystem& fs, const std::string& path,
                              const Model& model);

// A state_dict that PyTorch's safetensors package loads.
Status write_weights(io::FileSystem& fs, const std::string& path, const Model& model);

}  // namespace forebay::train
