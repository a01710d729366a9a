// A learner that trains one model by SGD.
#pragma once

#include "train/learner/learner.h"
#include "train/learner/sgd.h"

namespace forebay::train {

class SingleLearner final : public Learner {
 public:
  struct Options {
    Precision precision = Precision::kFp32;
    Sgd::Options sgd;
    Schedule schedule;
    double label_smoothing = 0;
    // Whether evaluate() takes the mean of the logits of an image and its mirror image.
    bool evaluate_flipped = false;
  };
  // `model` must outlive the learner, and must already be on the device where it learns.
  SingleLearner(Model& model, const Options& options);

  using Learner::gradients;
  Samples take(const std::shared_ptr<const feed::Batch>& batch) const override {
    return intake_.take(batch);
  }
  Result<BatchResult> gradients(const Samples& samples,
                                const std::function<void()>& meanwhile) override;
  bool has_gradients() const override { return has_gradients_; }
  void apply(double rate) override;
  double rate(uint64_t step) const override { return options_.schedule.at(step); }
  Result<EvalResult> evaluate(feed::Feed& feed, uint64_t epoch) override;
  FlatNumbers flatten() override;
  // Moves only the weights into one tensor, and returns it. Gradients then stay where the backward
  // pass makes them, which saves two passes over the model in each step.
  at::Tensor flatten_weights();
  const Model& model() const override { return model_; }
  std::vector<Named> state() const override;

 private:
  at::Tensor predict(const at::Tensor& images) const;

  Model& model_;
  Options options_;
  Intake intake_;
  Sgd sgd_;
  FlatNumbers numbers_;  // undefined until flatten()
  bool has_gradients_ = false;
};

}  // namespace forebay::train
