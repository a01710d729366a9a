#include "train/model/model.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "base/limits.h"

namespace forebay::train {

using base::Code;
using base::fail;

at::Tensor Model::forward(const at::Tensor& images, bool training) {
  return forward(images, training, 0, blocks_.size());
}

at::Tensor Model::forward(const at::Tensor& x, bool training, size_t first, size_t end) {
  FOREBAY_CHECK(first < end && end <= blocks_.size());
  at::Tensor y = blocks_[first].block->forward(x, training);
  for (size_t i = first + 1; i < end; ++i) y = blocks_[i].block->forward(y, training);
  return y;
}

std::vector<BlockWork> Model::work(int64_t side) const {
  std::vector<BlockWork> out;
  Activation shape{3, side};
  for (size_t i = 0; i < blocks_.size(); ++i) {
    BlockWork& work = out.emplace_back(BlockWork{.name = blocks_[i].block->name(), .out = shape});
    blocks_[i].block->add_work(&work);
    for (const Named& named : state(i, i + 1)) {
      if (named.tensor.requires_grad()) work.weights += named.tensor.numel();
    }
    shape = work.out;
  }
  return out;
}

std::vector<Named> Model::state(size_t first, size_t end) const {
  const Ends begin = ends_before(first);
  const Ends last = ends_before(end);
  std::vector<Named> all;
  const auto add = [&](const std::vector<Named>& list, size_t from, size_t to) {
    all.insert(all.end(), list.begin() + static_cast<ptrdiff_t>(from),
               list.begin() + static_cast<ptrdiff_t>(to));
  };
  add(decayed_, begin.decayed, last.decayed);
  add(undecayed_, begin.undecayed, last.undecayed);
  add(buffers_, begin.buffers, last.buffers);
  return all;
}

void Model::to(const c10::Device& device) {
  const c10::NoGradGuard no_grad;
  // The layers refer to the same tensors, so set_data() moves theirs too.
  for (const Named& named : state()) named.tensor.set_data(named.tensor.detach().to(device));
}

Result<std::unique_ptr<Model>> make_model(const ModelOptions& options) {
  if (options.width < 1 || options.width > base::kModelWidthMax) {
    return fail(Code::kInvalid, "--width {}: use 1 to {}", options.width, base::kModelWidthMax);
  }
  if (options.classes > static_cast<int64_t>(base::kClassesMax)) {
    return fail(Code::kTooBig, "{} classes (the highest label plus one); the limit is {}",
                options.classes, base::kClassesMax);
  }
  if (options.classes < 1) return fail(Code::kInvalid, "the dataset has no classes to learn");
  if (options.name == "resnet9") return make_resnet9(options);
  if (options.name == "resnet18") return make_resnet18(options);
  return fail(Code::kInvalid, "--model {}: use resnet9 or resnet18", options.name);
}

}  // namespace forebay::train
