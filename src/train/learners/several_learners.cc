#include "train/learners/several_learners.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <exception>

namespace forebay::train {

using base::Code;
using base::fail;

namespace {

// Where the j-th of `count` equal parts of `total` begins.
template <class Number>
Number part_begin(Number total, size_t j, size_t count) {
  return total * static_cast<Number>(j) / static_cast<Number>(count);
}

// Returns the j-th of `count` parts of a batch.
Samples part_of(const Samples& samples, size_t j, size_t count) {
  const int64_t begin = part_begin(samples.labels.size(0), j, count);
  const int64_t end = part_begin(samples.labels.size(0), j + 1, count);
  Samples part = samples;
  part.images = samples.images.slice(0, begin, end);
  part.labels = samples.labels.slice(0, begin, end);
  part.labelled = static_cast<uint64_t>(part.labels.ne(kNoLabel).sum().item<int64_t>());
  return part;
}

void copy_tensors(const std::vector<Named>& from, const std::vector<Named>& to) {
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < from.size(); ++i) at::Tensor(to[i].tensor).copy_(from[i].tensor);
}

// Whether batch norms have seen images.
bool has_seen_images(const Model& model) {
  const auto counts = [](const Named& named) { return named.tensor.scalar_type() == at::kLong; };
  const auto count = std::ranges::find_if(model.buffers(), counts);
  return count != model.buffers().end() && count->tensor.item<int64_t>() > 0;
}

std::span<float> floats_of(const at::Tensor& flat) {
  if (!flat.defined()) return {};
  return {flat.mutable_data_ptr<float>(), static_cast<size_t>(flat.numel())};
}

}  // namespace

SeveralLearners::SeveralLearners(Model& central, const Options& options)
    : model_(central), central_(central, options.learner) {}

Result<std::unique_ptr<SeveralLearners>> SeveralLearners::make(Model& central,
                                                               const ModelOptions& options_of_model,
                                                               const Options& options) {
  FOREBAY_CHECK(central.device().is_cpu());
  const auto no_memory = [&](const char* what) {
    return fail(Code::kNoMemory, "--learners {}: this machine cannot hold so many ({}); use fewer",
                options.averaging.learners, what);
  };
  try {
    std::unique_ptr<SeveralLearners> several(new SeveralLearners(central, options));
    RETURN_IF_ERROR(several->add_learners(options_of_model, options));
    return several;
  } catch (const std::bad_alloc& error) {
    return no_memory(error.what());
  } catch (const c10::Error& error) {  // libtorch throws it where memory ends
    return no_memory(error.what_without_backtrace());
  }
}

Status SeveralLearners::add_learners(const ModelOptions& options_of_model, const Options& options) {
  RETURN_IF_ERROR(check_averaging(options.averaging));
  for (uint32_t j = 0; j < options.averaging.learners; ++j) {
    ASSIGN_OR_RETURN(auto model, make_model(options_of_model));
    copy_tensors(model_.state(), model->state());
    auto learner = std::make_unique<SingleLearner>(*model, options.learner);
    OneLearner& one = learners_.emplace_back();
    if (options.averaging.kind == "sgd") {
      const FlatNumbers flat = learner->flatten();
      one.weights = flat.weights;
      one.gradient = flat.gradient;
    } else {
      one.weights = learner->flatten_weights();
    }
    one.model = std::move(model);
    one.learner = std::move(learner);
  }
  ASSIGN_OR_RETURN(averaging_, make_averaging(options.averaging, floats_of(learners_[0].weights)));
  join_central_weights();
  in_threads([&](size_t j) {
    // PyTorch's threads are per thread that asks for them. The first question sets the number of
    // the whole process, so the own number must come after it.
    at::get_num_threads();
    const int begin = part_begin(options.threads, j, learners_.size());
    const int end = part_begin(options.threads, j + 1, learners_.size());
    at::set_num_threads(std::max(1, end - begin));
  });
  // A thread of which no number was set yet takes the one that was set last.
  at::set_num_threads(options.threads);
  return {};
}

// Makes the central model's weights views of the numbers that are averaged.
void SeveralLearners::join_central_weights() {
  const c10::NoGradGuard no_grad;
  const std::span<float> central = averaging_->central();
  const at::Tensor flat = at::from_blob(
      central.data(), {static_cast<int64_t>(central.size())}, [owner = averaging_](void*) {},
      at::TensorOptions(at::kFloat));
  int64_t begin = 0;
  for (const auto* list : {&model_.decayed(), &model_.undecayed()}) {
    for (const Named& named : *list) {
      named.tensor.set_data(flat.as_strided(named.tensor.sizes(), named.tensor.strides(), begin));
      begin += named.tensor.numel();
    }
  }
}

// Gives all learners the buffers that the central model computes from the first images: weights of
// models with different whitening filters have no useful mean.
void SeveralLearners::share_first_statistics(const Samples& samples) {
  if (has_statistics_) return;
  has_statistics_ = true;
  if (has_seen_images(*learners_[0].model)) return;
  const c10::NoGradGuard no_grad;
  model_.forward(samples.images, true);
  for (const OneLearner& one : learners_) copy_tensors(model_.buffers(), one.model->buffers());
}

void SeveralLearners::in_threads(const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> thrown(learners_.size());
  crew_.start(static_cast<uint32_t>(learners_.size()), [&](uint32_t j) {
    try {
      work(j);
    } catch (...) {
      thrown[j] = std::current_exception();
    }
  });
  crew_.wait();
  for (const std::exception_ptr& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

Result<BatchResult> SeveralLearners::gradients(const Samples& samples,
                                               const std::function<void()>& meanwhile) {
  has_gradients_ = false;
  BatchResult all;
  if (samples.labelled == 0) return all;
  share_first_statistics(samples);
  in_threads([&](size_t j) {
    learners_[j].result = learners_[j].learner->gradients(part_of(samples, j, learners_.size()));
  });
  if (meanwhile) meanwhile();
  for (size_t j = 0; j < learners_.size(); ++j) {
    const Result<BatchResult>& own = learners_[j].result;
    if (!own) {
      return tl::unexpected(
          own.error().at(fmt::format("learner {} of {}", j + 1, learners_.size())));
    }
    all.samples += own->samples;
    all.correct += own->correct;
    all.loss += own->loss * static_cast<double>(own->samples);
  }
  all.loss /= static_cast<double>(all.samples);
  has_gradients_ = true;
  return all;
}

std::vector<LearnerNumbers> SeveralLearners::numbers() const {
  std::vector<LearnerNumbers> out;
  for (const OneLearner& one : learners_) {
    out.push_back({.weights = floats_of(one.weights),
                   .gradient = floats_of(one.gradient),
                   .samples = one.result ? one.result->samples : 0});
  }
  return out;
}

Range SeveralLearners::part(size_t j) const {
  const uint64_t total = averaging_->central().size();
  const uint64_t begin = part_begin(total, j, learners_.size());
  return {.begin = begin, .count = part_begin(total, j + 1, learners_.size()) - begin};
}

void SeveralLearners::apply(double rate) {
  FOREBAY_CHECK(has_gradients_);
  has_gradients_ = false;
  const std::vector<LearnerNumbers> all = numbers();
  averaging_->begin_step(rate);
  const bool is_due = averaging_->is_due();
  if (is_due) in_threads([&](size_t j) { averaging_->before_update(all, part(j)); });
  in_threads([&](size_t j) {
    SingleLearner& learner = *learners_[j].learner;
    if (learner.has_gradients()) learner.apply(rate);  // not without labelled samples
  });
  if (is_due) in_threads([&](size_t j) { averaging_->after_update(all, part(j)); });
}

// Brings the central model up to date. Its batch norms' running statistics are the means of the
// learners' statistics.
void SeveralLearners::settle() const {
  const c10::NoGradGuard no_grad;
  averaging_->settle(numbers(), {.begin = 0, .count = averaging_->central().size()});
  for (size_t i = 0; i < model_.buffers().size(); ++i) {
    std::vector<at::Tensor> own;
    for (const OneLearner& one : learners_) {
      // In double precision, the mean of equal float32 numbers is the same number.
      own.push_back(one.model->buffers()[i].tensor.to(at::kDouble));
    }
    at::Tensor(model_.buffers()[i].tensor).copy_(at::stack(own).mean(0));
  }
}

Result<EvalResult> SeveralLearners::evaluate(feed::Feed& feed, uint64_t epoch) {
  settle();
  return central_.evaluate(feed, epoch);
}

FlatNumbers SeveralLearners::flatten() {
  base::die(__FILE__, __LINE__, "several learners do not train with other processes");
}

const Model& SeveralLearners::model() const {
  settle();
  return model_;
}

std::vector<Named> SeveralLearners::state() const {
  settle();
  std::vector<Named> all = model_.state();
  for (size_t j = 0; j < learners_.size(); ++j) {
    for (const Named& named : learners_[j].learner->state()) {
      all.push_back({fmt::format("learner{}.{}", j + 1, named.name), named.tensor});
    }
  }
  for (const KeptNumbers& kept : averaging_->kept()) {
    if (kept.name == "central") continue;  // the central model's weights are these numbers
    all.push_back({"averaging." + kept.name,
                   at::from_blob(
                       kept.floats.data(), {static_cast<int64_t>(kept.floats.size())},
                       [owner = averaging_](void*) {}, at::TensorOptions(at::kFloat))});
  }
  return all;
}

}  // namespace forebay::train
