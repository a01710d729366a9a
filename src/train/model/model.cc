#include "train/model/model.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "base/limits.h"

namespace forebay::train {

using base::Code;
using base::fail;

std::vector<Named> Model::state() const {
  std::vector<Named> all = decayed_;
  all.insert(all.end(), undecayed_.begin(), undecayed_.end());
  all.insert(all.end(), buffers_.begin(), buffers_.end());
  return all;
}

void Model::to(const c10::Device& device) {
  const c10::NoGradGuard no_grad;
  // The layers' tensors are the same ones.
  for (const Named& named : state()) named.tensor.set_data(named.tensor.detach().to(device));
}

Result<std::unique_ptr<Model>> make_model(const ModelOptions& options) {
  if (options.width < 1 || options.width > base::kModelWidthMax) {
    return fail(Code::kInvalid, "--width {}: use 1 to {}", options.width, base::kModelWidthMax);
  }
  if (options.classes > static_cast<int64_t>(base::kClassesMax)) {
    return fail(Code::kTooBig, "{} classes (the highest label and one); the limit is {}",
                options.classes, base::kClassesMax);
  }
  if (options.classes < 1) return fail(Code::kInvalid, "the dataset has no classes to learn");
  if (options.name == "resnet9") return make_resnet9(options);
  if (options.name == "resnet18") return make_resnet18(options);
  return fail(Code::kInvalid, "--model {}: use resnet9 or resnet18", options.name);
}

}  // namespace forebay::train
