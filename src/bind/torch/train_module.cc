// The Python module forebay._train: runs a training in a Python process, because torch's process
// groups are made in Python.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/train_command.h"
#include "bind/torch/tensors.h"

namespace forebay::bind {
namespace {

namespace nb = nanobind;
using base::ByteVector;
using base::Result;
using base::Status;

// Calls the methods of a `Job` (python/forebay/sync/train.py).
class PythonReplicas final : public train::Replicas {
 public:
  explicit PythonReplicas(nb::object job)
      : job_(std::move(job)),
        rank_(nb::cast<uint32_t>(job_.attr("rank"))),
        processes_(nb::cast<uint32_t>(job_.attr("processes"))),
        processes_here_(nb::cast<uint32_t>(job_.attr("processes_here"))) {}

  uint32_t rank() const override { return rank_; }
  uint32_t processes() const override { return processes_; }
  uint32_t processes_here() const override { return processes_here_; }
  bool exchanges() const override { return true; }

  Result<uint32_t> newest_rank(uint64_t steps) override {
    uint32_t rank = 0;
    const Status status = call([&] { rank = nb::cast<uint32_t>(job_.attr("newest_rank")(steps)); });
    if (!status.ok()) return tl::unexpected(status);
    return rank;
  }
  Result<ByteVector> from_rank(uint32_t rank, const ByteVector& own) override {
    ByteVector all;
    const Status status = call([&] {
      const auto given =
          nb::cast<nb::bytes>(job_.attr("from_rank")(rank, nb::bytes(own.data(), own.size())));
      const auto* const begin = static_cast<const uint8_t*>(given.data());
      all.assign(begin, begin + given.size());
    });
    if (!status.ok()) return tl::unexpected(status);
    return all;
  }
  Status begin(const train::FlatNumbers& numbers) override {
    return call([&] {
      job_.attr("begin")(numbers.weights, numbers.gradient, numbers.sizes, numbers.momentum);
    });
  }
  Status before_update() override {
    return call([&] { job_.attr("before_update")(); });
  }
  Status after_update() override {
    return call([&] { job_.attr("after_update")(); });
  }
  Status show_averaged() override {
    return call([&] { job_.attr("show_averaged")(); });
  }
  Status show_own() override {
    return call([&] { job_.attr("show_own")(); });
  }
  Status end() override {
    return call([&] { job_.attr("end")(); });
  }
  std::string describe() const override { return text("describe"); }
  std::string stats() const override { return text("stats_text"); }

 private:
  std::string text(const char* method) const {
    const nb::gil_scoped_acquire acquired;
    return nb::cast<std::string>(job_.attr(method)());
  }
  template <class Call>
  Status call(const Call& what) const {
    const nb::gil_scoped_acquire acquired;
    try {
      what();
      return {};
    } catch (const nb::python_error& error) {
      return {base::Code::kUnavailable, nb::cast<std::string>(nb::str(error.value()))};
    }
  }

  const nb::object job_;
  const uint32_t rank_;
  const uint32_t processes_;
  const uint32_t processes_here_;
};

int run(const std::vector<std::string>& arguments, nb::object job) {
  std::vector<std::string> words = {"forebay-train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  // This owner is the last one, so that the Python object goes when the lock is held again.
  const auto replicas = std::make_shared<PythonReplicas>(std::move(job));
  const nb::gil_scoped_release released;
  return apps::train_command(static_cast<int>(pointers.size()), pointers.data(), replicas);
}

}  // namespace
}  // namespace forebay::bind

NB_MODULE(_train, m) {
  m.def("run", &forebay::bind::run, nanobind::arg("arguments"), nanobind::arg("job"),
        "Runs a command line of forebay-train together with the job's other processes; returns "
        "its exit status.");
}
