// Several learners on one device: each has a model, an optimiser and a thread of its own, and takes
// its part of every batch. averaging/ decides how they become one model, the central model, which
// is validated and stored. How this is used: docs/learners.md.
#pragma once

#include "base/crew.h"
#include "train/learner/single_learner.h"
#include "train/learners/averaging/averaging.h"

namespace forebay::train {

class SeveralLearners final : public Learner {
 public:
  struct Options {
    SingleLearner::Options learner = {};  // of each learner
    AveragingOptions averaging = {};
    // PyTorch's threads of all learners together. A learner has at least one thread, also if that
    // makes more in sum.
    int threads = 1;
  };
  // Makes the learners of a central model, which is on the processor and must outlive them.
  // `options_of_model` are those that it was made with; its present weights and buffers are the
  // first ones of all learners. Errors: those of make_averaging(); kNoMemory.
  static Result<std::unique_ptr<SeveralLearners>> make(Model& central,
                                                       const ModelOptions& options_of_model,
                                                       const Options& options);

  using Learner::gradients;
  Samples take(const std::shared_ptr<const feed::Batch>& batch) const override {
    return central_.take(batch);
  }
  // Learner j of k takes the samples from the j-th to before the (j + 1)-th k-th of the batch. An
  // exception in a learner's thread is thrown here, when all threads have ended their work.
  Result<BatchResult> gradients(const Samples& samples,
                                const std::function<void()>& meanwhile) override;
  bool has_gradients() const override { return has_gradients_; }
  void apply(double rate) override;
  double rate(uint64_t step) const override { return central_.rate(step); }
  Result<EvalResult> evaluate(feed::Feed& feed, uint64_t epoch) override;
  // Must not be called: several learners do not train together with other processes.
  FlatNumbers flatten() override;
  const Model& model() const override;
  std::vector<Named> state() const override;

 private:
  struct OneLearner {
    std::unique_ptr<Model> model;
    std::unique_ptr<SingleLearner> learner;
    at::Tensor weights;   // all of them, one after the other
    at::Tensor gradient;  // the same; not defined if gradients are not averaged
    Result<BatchResult> result;
  };

  SeveralLearners(Model& central, const Options& options);
  Status add_learners(const ModelOptions& options_of_model, const Options& options);
  void join_central_weights();
  void share_first_statistics(const Samples& samples);
  std::vector<LearnerNumbers> numbers() const;
  // The part of the model that thread `j` averages.
  Range part(size_t j) const;
  void settle() const;
  // Calls work(0) to work(k - 1), each in the thread of its learner, and waits for them.
  void in_threads(const std::function<void(size_t)>& work);

  Model& model_;                          // the central model
  SingleLearner central_;                 // only takes batches and evaluates
  std::shared_ptr<Averaging> averaging_;  // has the memory of the central model's weights
  std::vector<OneLearner> learners_;
  bool has_statistics_ = false;  // whether the learners are known to have the same filters
  bool has_gradients_ = false;
  base::Crew crew_;
};

}  // namespace forebay::train
