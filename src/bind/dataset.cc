#include "bind/dataset.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"
#include "store/in_place.h"

namespace forebay::bind {
namespace {

using Labels = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

Dataset open(const std::string& path) {
  Dataset dataset;
  {
    const nb::gil_scoped_release released;
    dataset.opened = unwrap(store::open_dataset(io::posix_file_system(), path));
  }
  for (const std::string& note : dataset.opened->notes()) warn(path + ": " + note);
  return dataset;
}

const store::Dataset& with(const Dataset& dataset, uint64_t sample) {
  if (sample >= dataset.opened->sample_count()) throw nb::index_error("no such sample");
  return *dataset.opened;
}

Labels labels(const Dataset& dataset) {
  const uint64_t count = dataset.opened->sample_count();
  auto* const out = new std::vector<int64_t>(count);
  const nb::capsule owner(out,
                          [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
  for (uint64_t i = 0; i < count; ++i) (*out)[i] = dataset.opened->location(i).label;
  return Labels(out->data(), {count}, owner);
}

nb::bytes read(const Dataset& dataset, uint64_t sample) {
  const store::Dataset& opened = with(dataset, sample);
  base::ByteVector file;
  {
    const nb::gil_scoped_release released;
    check(store::read_file_at(io::posix_file_system(), opened, opened.location(sample), &file)
              .at(fmt::format("{}: sample {}", opened.path(), sample)));
  }
  return nb::bytes(file.data(), file.size());
}

std::string key(const Dataset& dataset, uint64_t sample) {
  const nb::gil_scoped_release released;
  return unwrap(with(dataset, sample).key(sample));
}

std::vector<std::string> keys(const Dataset& dataset) {
  const nb::gil_scoped_release released;
  std::vector<std::string> out;
  out.reserve(dataset.opened->sample_count());
  for (uint32_t chunk = 0; chunk < dataset.opened->chunk_count(); ++chunk) {
    for (std::string& one : unwrap(dataset.opened->chunk_keys(chunk))) {
      out.push_back(std::move(one));
    }
  }
  return out;
}

std::optional<uint64_t> find(const Dataset& dataset, const std::string& key) {
  const nb::gil_scoped_release released;
  return unwrap(dataset.opened->find(key));
}

}  // namespace

void bind_dataset(nb::module_& m) {
  nb::class_<Dataset>(m, "Dataset", "A packed dataset, or images in place.")
      .def_static("open", &open, nb::arg("path"))
      .def_prop_ro("path", [](const Dataset& d) { return d.opened->path(); })
      .def_prop_ro("classes", [](const Dataset& d) { return d.opened->schema().classes; })
      .def_prop_ro("fingerprint",
                   [](const Dataset& d) { return base::to_hex(d.opened->fingerprint()); })
      .def("__len__", [](const Dataset& d) { return d.opened->sample_count(); })
      .def("labels", &labels, "Class numbers, int64 [samples]; -1 where there is none.")
      .def("read", &read, nb::arg("sample"), "The image file of a sample, its checksum compared.")
      .def("key", &key, nb::arg("sample"))
      .def("keys", &keys)
      .def("find", &find, nb::arg("key"), "The sample with this key, or None.");
}

}  // namespace forebay::bind
