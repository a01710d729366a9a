#include <nanobind/stl/shared_ptr.h>

#include "bind/arrays.h"
#include "bind/dataset.h"
#include "feed/read/plan.h"

namespace forebay::bind {
namespace {

using Numbers = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<uint64_t> to_vector(const Numbers& numbers) {
  return {numbers.data(), numbers.data() + numbers.size()};
}

Array<uint64_t> draw(const feed::SampleWeights& weights, uint64_t seed, uint64_t epoch,
                     uint64_t count) {
  std::vector<uint64_t> samples;
  {
    const WithoutInterpreter released;
    samples = feed::draw_samples(weights, seed, epoch, count).samples;
  }
  return to_array(std::move(samples));
}

Array<uint64_t> samples_of_epoch(const Dataset& dataset, const feed::FeedOptions& options,
                                 uint64_t epoch) {
  std::vector<uint64_t> samples;
  {
    const WithoutInterpreter released;
    samples = unwrap(feed::samples_of_epoch(*dataset.opened, options, epoch));
  }
  return to_array(std::move(samples));
}

}  // namespace

void bind_order(nb::module_& m) {
  nb::class_<feed::SampleWeights>(m, "SampleWeights", "Draws samples by their weights.")
      .def(
          "__init__",
          [](feed::SampleWeights* self, const Weights& weights) {
            new (self) feed::SampleWeights(
                unwrap(feed::SampleWeights::make({weights.data(), weights.size()})));
          },
          nb::arg("weights"),
          "`weights` has one number for each sample of a dataset, in any proportion.")
      .def("draw", &draw, nb::arg("seed"), nb::arg("epoch"), nb::arg("count"),
           "The first `count` samples of an epoch, uint64 [count].");
  nb::class_<feed::Shuffled>(m, "Shuffled", "Each sample once, in a random order.")
      .def(nb::init<>());
  nb::class_<feed::Stored>(m, "Stored", "Each sample once, in storage order.").def(nb::init<>());
  nb::class_<feed::Weighted>(m, "Weighted", "Samples drawn by weights.")
      .def(
          "__init__",
          [](feed::Weighted* self, std::shared_ptr<feed::SampleWeights> weights, uint64_t samples) {
            new (self) feed::Weighted{.weights = std::move(weights), .samples = samples};
          },
          nb::arg("weights"), nb::arg("samples"), "An epoch draws this number of samples.");
  nb::class_<feed::SampleList>(m, "SampleList", "An epoch's samples, one after the other.")
      .def(
          "__init__",
          [](feed::SampleList* self, const Numbers& samples, const Numbers& drawn_for,
             const Numbers& step_ends) {
            new (self) feed::SampleList{.samples = to_vector(samples),
                                        .drawn_for = to_vector(drawn_for),
                                        .step_ends = to_vector(step_ends)};
          },
          nb::arg("samples"), nb::arg("drawn_for"), nb::arg("step_ends"),
          "samples: numbers in the dataset. drawn_for: the number that each sample's augmentation "
          "is drawn for. step_ends: the position after each step; empty: each step has a global "
          "batch.");
  m.def("samples_of_epoch", &samples_of_epoch, nb::arg("dataset"), nb::arg("options"),
        nb::arg("epoch"),
        "The samples of an epoch of the order in `options`, at all positions of all ranks: uint64. "
        "Reads no image.");
}

}  // namespace forebay::bind
