// deps: forebay_train_format
// Decodes any bytes as a safetensors file: the result is an error or tensors inside the file, and
// what was decoded can be encoded and decoded again without a change.
// The corpus has one file for each path through the decoder; write_safetensors_corpus.py makes it.
#include "train/format/safetensors.h"

#include <algorithm>

namespace {

using namespace forebay;

void check_inside(const train::TensorView& tensor, base::Bytes file) {
  uint64_t bytes = train::element_bytes(tensor.type);
  for (const int64_t side : tensor.shape) bytes *= static_cast<uint64_t>(side);
  FOREBAY_CHECK(bytes == tensor.data.size());
  if (tensor.data.empty()) return;
  FOREBAY_CHECK(tensor.data.data() >= file.data());
  FOREBAY_CHECK(tensor.data.data() + tensor.data.size() <= file.data() + file.size());
}

void check_same(const train::Safetensors& a, const train::Safetensors& b) {
  FOREBAY_CHECK(a.metadata == b.metadata && a.tensors.size() == b.tensors.size());
  std::map<std::string, const train::TensorView*> by_name;
  for (const train::TensorView& tensor : b.tensors) by_name[tensor.name] = &tensor;
  for (const train::TensorView& tensor : a.tensors) {
    FOREBAY_CHECK(by_name.contains(tensor.name));
    const train::TensorView& other = *by_name[tensor.name];
    FOREBAY_CHECK(tensor.type == other.type && tensor.shape == other.shape);
    FOREBAY_CHECK(std::ranges::equal(tensor.data, other.data));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const base::Bytes file(data, size);
  const auto content = train::decode_safetensors(file);
  if (!content) return 0;
  for (const train::TensorView& tensor : content->tensors) check_inside(tensor, file);
  const auto again = train::encode_safetensors(*content);
  if (!again) return 0;  // The header may pass its limit when it is written with more escapes.
  const auto back = train::decode_safetensors(*again);
  FOREBAY_CHECK(back.has_value());
  check_same(*content, *back);
  return 0;
}
