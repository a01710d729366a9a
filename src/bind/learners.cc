#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <span>

#include "bind/bind.h"
#include "train/learners/averaging/averaging.h"

namespace forebay::bind {
namespace {

using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::span<float> row(const Rows& rows, size_t index) {
  return {rows.data() + index * rows.shape(1), rows.shape(1)};
}

void require(bool holds, const char* message) {
  if (!holds) throw nb::value_error(message);
}

// An averaging, and the learners' numbers, whose memory Python keeps alive.
class BoundAveraging {
 public:
  BoundAveraging(const train::AveragingOptions& options, const Rows& weights,
                 const Rows& gradients) {
    require(weights.shape(0) == options.learners, "weights must have a row for each learner");
    const bool has_gradients = options.kind == "sgd";
    require(!has_gradients ||
                (gradients.shape(0) == weights.shape(0) && gradients.shape(1) == weights.shape(1)),
            "gradients must have the shape of weights");
    for (size_t j = 0; j < options.learners; ++j) {
      numbers_.push_back({.weights = row(weights, j),
                          .gradient = has_gradients ? row(gradients, j) : std::span<float>()});
    }
    averaging_ = unwrap(train::make_averaging(options, numbers_.front().weights));
  }

  void begin_step(double rate) { averaging_->begin_step(rate); }

  void before_update(const std::vector<uint64_t>& samples) {
    require(samples.size() == numbers_.size(), "samples must have a number for each learner");
    for (size_t j = 0; j < samples.size(); ++j) numbers_[j].samples = samples[j];
    const WithoutInterpreter released;
    averaging_->before_update(numbers_, all());
  }

  void after_update() {
    const WithoutInterpreter released;
    averaging_->after_update(numbers_, all());
  }

  void settle() {
    const WithoutInterpreter released;
    averaging_->settle(numbers_, all());
  }

  // Copies what a checkpoint stores under a name to `out`, or from `in`.
  void read(const std::string& name, const Floats& out) {
    std::ranges::copy(kept(name, out.size()), out.data());
  }
  void write(const std::string& name, const Floats& in) {
    std::ranges::copy(std::span(in.data(), in.size()), kept(name, in.size()).begin());
  }

  nb::dict sizes() {
    nb::dict out;
    for (const train::KeptNumbers& kept : averaging_->kept()) {
      out[text(kept.name)] = kept.floats.size();
    }
    return out;
  }

 private:
  train::Range all() const { return {.begin = 0, .count = numbers_.front().weights.size()}; }

  std::span<float> kept(const std::string& name, size_t size) {
    for (const train::KeptNumbers& kept : averaging_->kept()) {
      if (kept.name != name) continue;
      require(kept.floats.size() == size, "the array must have the size that sizes() says");
      return kept.floats;
    }
    throw nb::value_error("use a name that sizes() lists");
  }

  std::vector<train::LearnerNumbers> numbers_;
  std::unique_ptr<train::Averaging> averaging_;
};

void make(BoundAveraging* self, const std::string& kind, uint32_t learners, uint64_t steps,
          double rate, double momentum, const Rows& weights, const Rows& gradients) {
  const train::AveragingOptions options = {
      .kind = kind, .learners = learners, .steps = steps, .rate = rate, .momentum = momentum};
  new (self) BoundAveraging(options, weights, gradients);
}

}  // namespace

void bind_learners(nb::module_& m) {
  m.def(
      "check_averaging",
      [](const std::string& kind, uint32_t learners, uint64_t steps, double rate, double momentum) {
        check(train::check_averaging({.kind = kind,
                                      .learners = learners,
                                      .steps = steps,
                                      .rate = rate,
                                      .momentum = momentum}));
      },
      nb::arg("kind"), nb::arg("learners"), nb::arg("steps"), nb::arg("rate"), nb::arg("momentum"),
      "Raises ValueError for options that Averaging would refuse.");
  nb::class_<BoundAveraging>(m, "Averaging",
                             "How several learners become one model: "
                             "src/train/learners/averaging/averaging.h. One thread calls it.")
      .def("__init__", &make, nb::arg("kind"), nb::arg("learners"), nb::arg("steps"),
           nb::arg("rate"), nb::arg("momentum"), nb::arg("weights"), nb::arg("gradients"),
           nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>(),
           "`weights`: float32 [learners, numbers], all rows equal; changed in place from then on. "
           "`gradients`: the same shape for the kind sgd, which replaces them by their mean; "
           "otherwise it is not read.")
      .def("begin_step", &BoundAveraging::begin_step, nb::arg("rate"))
      .def("before_update", &BoundAveraging::before_update, nb::arg("samples"))
      .def("after_update", &BoundAveraging::after_update)
      .def("settle", &BoundAveraging::settle)
      .def("read", &BoundAveraging::read, nb::arg("name"), nb::arg("out"),
           "Copies what a checkpoint stores under a name to `out`. \"central\" is the central "
           "model, up to date after settle().")
      .def("write", &BoundAveraging::write, nb::arg("name"), nb::arg("floats"))
      .def("sizes", &BoundAveraging::sizes,
           "What a checkpoint stores besides the weights: how many numbers, by name.");
}

}  // namespace forebay::bind
