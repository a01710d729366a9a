#include "train/model/weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/checksum.h"
#include "base/limits.h"

namespace forebay::train {

using base::Code;
using base::fail;

namespace {

Result<TensorType> type_name(const Named& named) {
  switch (named.tensor.scalar_type()) {
    case at::kFloat:
      return "F32";
    case at::kBFloat16:
      return "BF16";
    case at::kLong:
      return "I64";
    default:
      return fail(Code::kUnsupported, "tensor {}: files hold float32, bfloat16 and int64 only",
                  named.name);
  }
}

Status check_match(const TensorView& view, const Named& named) {
  ASSIGN_OR_RETURN(const TensorType type, type_name(named));
  if (view.type != type || at::IntArrayRef(view.shape) != named.tensor.sizes()) {
    return fail(Code::kCorrupt, "tensor {}: {} of shape [{}] in the file, expected {} of [{}]",
                named.name, view.type, fmt::join(view.shape, ", "), type,
                fmt::join(named.tensor.sizes(), ", "));
  }
  return {};
}

}  // namespace

Result<ByteVector> encode_tensors(const std::vector<Named>& tensors,
                                  const std::map<std::string, std::string>& metadata) {
  Safetensors content;
  content.metadata = metadata;
  std::vector<at::Tensor> rows;  // own the bytes that the views point to
  for (const Named& named : tensors) {
    ASSIGN_OR_RETURN(const TensorType type, type_name(named));
    rows.push_back(named.tensor.detach().cpu().contiguous());
    const at::Tensor& row = rows.back();
    content.tensors.push_back(
        {named.name, type, row.sizes().vec(),
         Bytes(static_cast<const uint8_t*>(row.const_data_ptr()), row.nbytes())});
  }
  return encode_safetensors(content);
}

Status load_tensors(const Safetensors& from, const std::vector<Named>& tensors) {
  std::map<std::string_view, const TensorView*> by_name;
  for (const TensorView& view : from.tensors) by_name[view.name] = &view;
  for (const Named& named : tensors) {
    const auto found = by_name.find(named.name);
    if (found == by_name.end()) {
      return fail(Code::kCorrupt, "tensor {} is not in the file", named.name);
    }
    RETURN_IF_ERROR(check_match(*found->second, named));
  }
  const c10::NoGradGuard no_grad;
  for (const Named& named : tensors) {
    at::Tensor row = at::empty(named.tensor.sizes(), named.tensor.scalar_type());
    const Bytes data = by_name[named.name]->data;
    if (!data.empty()) std::memcpy(row.mutable_data_ptr(), data.data(), data.size());
    at::Tensor(named.tensor).copy_(row);
  }
  return {};
}

// Whether a tensor belongs to a last layer for another number of classes: only its first dimension
// differs, and is the number of classes in the model.
static bool has_other_classes(const TensorView& view, const Named& named, int64_t classes) {
  const at::IntArrayRef own = named.tensor.sizes();
  const at::IntArrayRef other(view.shape);
  return !own.empty() && own.size() == other.size() && own[0] == classes && other[0] != classes &&
         own.slice(1) == other.slice(1);
}

Result<ReadWeights> read_weights(const io::Origin& origin, const std::string& path,
                                 const Model& model, int64_t classes) {
  ASSIGN_OR_RETURN(const ByteVector file, origin.read_whole(path, base::kSafetensorsFileMax));
  auto content = decode_safetensors(file);
  if (!content) return tl::unexpected(content.error().at(path));
  ReadWeights out;
  out.crc32c = base::crc32c(file);
  std::vector<Named> wanted;
  for (const Named& named : model.state()) {
    const auto found = std::ranges::find(content->tensors, named.name, &TensorView::name);
    if (found != content->tensors.end() && has_other_classes(*found, named, classes)) {
      out.left_out.push_back(named.name);
    } else {
      wanted.push_back(named);
    }
  }
  RETURN_IF_ERROR(load_tensors(*content, wanted).at(path));
  return out;
}

Result<std::map<std::string, std::string>> read_metadata(const io::Origin& origin,
                                                         const std::string& path) {
  ASSIGN_OR_RETURN(const ByteVector file, origin.read_whole(path, base::kSafetensorsFileMax));
  auto content = decode_safetensors(file);
  if (!content) return tl::unexpected(content.error().at(path));
  return std::move(content->metadata);
}

Status write_weights(io::FileSystem& fs, const std::string& path, const Model& model,
                     std::map<std::string, std::string> metadata) {
  metadata["format"] = "pt";
  ASSIGN_OR_RETURN(const ByteVector file, encode_tensors(model.state(), metadata));
  return fs.put(path, file).at("weights");
}

}  // namespace forebay::train
