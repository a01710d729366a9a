#include "train/model/layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/testing/find.h"

namespace forebay::train {
namespace {

// Convolves without padding, which would change the covariance.
TEST(Whitening, DecorrelatesPatchesAndScalesThemAlike) {
  const auto model = *make_model({"resnet9", 1, 2, 0});
  const at::Generator random = at::detail::createCPUGenerator(3);
  const at::Tensor noise = at::empty({64, 3, 16, 16}).normal_(0, 1, random);
  const at::Tensor images = at::avg_pool2d(noise, 3, 1, 1) + at::full({1, 3, 1, 1}, 0.5);
  model->forward(images, true);
  const at::Tensor weight = find(*model, "whiten.weight");
  const at::Tensor first = weight.slice(0, 0, 12);
  EXPECT_TRUE(at::equal(weight.slice(0, 12), -first));
  const at::Tensor out = at::conv2d(images, first).permute({0, 2, 3, 1}).reshape({-1, 12});
  const at::Tensor covariance = out.t().matmul(out) / out.size(0);
  EXPECT_TRUE(at::allclose(covariance, at::eye(12), 0, 0.05)) << covariance;
  // Another batch does not change the filters.
  const at::Tensor before = weight.clone();
  model->forward(images * 2, true);
  EXPECT_TRUE(at::equal(weight, before));
}

}  // namespace
}  // namespace forebay::train
