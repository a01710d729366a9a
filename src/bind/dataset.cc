#include "bind/dataset.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bind/arrays.h"
#include "bind/cache.h"
#include "cache/cached_origin.h"
#include "io/remote/any_origin.h"
#include "io/s3/options.h"
#include "store/columns.h"
#include "store/field_files.h"
#include "store/format/target_fields.h"
#include "store/in_place_dataset.h"
#include "store/source/image_names.h"
#include "store/view.h"

namespace forebay::bind {
namespace {

using Indices = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::list names(const std::vector<std::string>& values) {
  nb::list out;
  for (const std::string& value : values) out.append(name(value));
  return out;
}

nb::list texts(const std::vector<std::optional<std::string>>& values) {
  nb::list out;
  for (const auto& value : values) out.append(value ? nb::object(text(*value)) : nb::none());
  return out;
}

std::vector<std::string> names_of(const nb::list& values) {
  std::vector<std::string> out;
  for (const nb::handle value : values) out.push_back(name_of(nb::str(value)));
  return out;
}

// A dataset together with the origin that it is read from.
struct OwnedDataset {
  std::shared_ptr<const io::Origin> origin;
  std::shared_ptr<const store::Dataset> dataset;
};

Dataset open(const nb::str& path_name, io::StorageOptions options, const nb::str& index_cache,
             const Cache* cache) {
  const std::string path = name_of(path_name);
  const std::string kept = name_of(index_cache);
  Dataset dataset;
  {
    const WithoutInterpreter released;
    const auto owned = std::make_shared<OwnedDataset>();
    owned->origin = std::make_shared<const io::AnyOrigin>(std::move(options));
    if (cache != nullptr) {
      owned->origin =
          std::make_shared<const cache::CachedOrigin>(owned->origin, cache->opened, path);
    }
    owned->dataset = unwrap(store::open_dataset(
        *owned->origin, path, {.kept = io::kept_files(kept), .loads_locations = false}));
    dataset.opened = {owned, owned->dataset.get()};
  }
  for (const std::string& note : dataset.opened->notes()) warn(path + ": " + note);
  return dataset;
}

Dataset open_files(const nb::list& path_names, const Cache* cache) {
  const std::vector<std::string> paths = names_of(path_names);
  const WithoutInterpreter released;
  const auto owned = std::make_shared<OwnedDataset>();
  owned->origin = std::make_shared<const io::AnyOrigin>(io::StorageOptions());
  if (cache != nullptr) {
    owned->origin = std::make_shared<const cache::CachedOrigin>(owned->origin, cache->opened, "/");
  }
  owned->dataset = unwrap(store::open_files(*owned->origin, paths));
  return {{owned, owned->dataset.get()}};
}

const store::Dataset& with(const Dataset& dataset, uint64_t sample) {
  if (sample >= dataset.opened->sample_count()) throw nb::index_error("no such sample");
  return *dataset.opened;
}

Dataset select(const Dataset& base, const Indices& samples) {
  std::vector<uint64_t> numbers(samples.data(), samples.data() + samples.size());
  const WithoutInterpreter released;
  return {unwrap(store::select(base.opened, std::move(numbers)))};
}

Dataset concat(const std::vector<Dataset>& parts, bool merges_classes) {
  std::vector<std::shared_ptr<const store::Dataset>> opened;
  for (const Dataset& part : parts) opened.push_back(part.opened);
  return {unwrap(
      store::concat(opened, merges_classes ? store::Classes::kMerged : store::Classes::kLeftOut))};
}

template <class Number>
Array<int64_t> of_locations(const Dataset& dataset, Number number) {
  std::vector<int64_t> out(dataset.opened->sample_count());
  {
    const WithoutInterpreter released;
    check(dataset.opened->load_all_locations({}));
    for (uint64_t i = 0; i < out.size(); ++i) out[i] = number(dataset.opened->location(i));
  }
  return to_array(std::move(out));
}

Array<int64_t> labels(const Dataset& dataset) {
  return of_locations(dataset, [](const store::Location& at) { return at.label; });
}

// Returns the name of the field that labels come from, or an empty text if there is none.
std::string class_field(const Dataset& dataset) {
  for (const store::Field& field : dataset.opened->schema().fields) {
    if (field.kind == store::FieldKind::kClass) return field.name;
  }
  return {};
}

// The first sample usually has a label, so this seldom looks at more than one. It reads nothing
// over a network: a packed dataset has a class field only if some of its samples have a class.
bool has_labels(const Dataset& dataset) {
  const WithoutInterpreter released;
  for (uint64_t i = 0; i < dataset.opened->sample_count(); ++i) {
    if (!dataset.opened->knows_locations(dataset.opened->chunk_of(i))) {
      return !class_field(dataset).empty();
    }
    if (dataset.opened->location(i).label >= 0) return true;
  }
  return false;
}

Array<int64_t> lengths(const Dataset& dataset) {
  return of_locations(dataset, [](const store::Location& at) { return at.length; });
}

std::vector<std::string> scalar_fields(const Dataset& dataset) {
  std::vector<std::string> out;
  for (const store::Field& field : dataset.opened->schema().fields) {
    if (store::is_scalar(field.kind)) out.push_back(field.name);
  }
  return out;
}

// Returns a dict from each column's name to its values: an array of numbers, or a list of texts.
nb::dict columns(const Dataset& dataset) {
  store::Columns columns;
  {
    const WithoutInterpreter released;
    columns = unwrap(store::read_columns(*dataset.opened));
  }
  nb::dict out;
  for (store::Column& column : columns.fields) {
    out[column.name.c_str()] = column.kind == store::FieldKind::kClass
                                   ? nb::cast(to_array(std::move(column.numbers)))
                                   : nb::object(texts(column.texts));
  }
  out["width"] = to_array(std::move(columns.width));
  out["height"] = to_array(std::move(columns.height));
  out["source_path"] = names(columns.source_path);
  return out;
}

// Returns the field with the masks of a packed dataset; null if there is none.
const store::Field* mask_field(const Dataset& dataset) {
  if (dataset.opened->in_place()) return nullptr;
  for (const std::string_view name : store::kMaskFields) {
    for (const store::Field& field : dataset.opened->schema().fields) {
      if (field.name == name && field.kind == store::FieldKind::kImage) return &field;
    }
  }
  return nullptr;
}

// Returns the fields of a packed dataset that hold further images: all image fields except the
// first one and the masks.
std::vector<std::string> image_fields(const Dataset& dataset) {
  std::vector<std::string> out;
  if (dataset.opened->in_place()) return out;
  bool is_first = true;
  for (const store::Field& field : dataset.opened->schema().fields) {
    if (field.kind != store::FieldKind::kImage || std::exchange(is_first, false)) continue;
    if (std::ranges::find(store::kMaskFields, field.name) == std::end(store::kMaskFields)) {
      out.push_back(field.name);
    }
  }
  return out;
}

bool has_annotations(const Dataset& dataset) {
  return std::ranges::any_of(dataset.opened->schema().fields, [](const store::Field& field) {
    return field.name == store::kAnnotationsField && field.kind == store::FieldKind::kJson;
  });
}

Dataset masks(const Dataset& dataset) {
  const store::Field* const field = mask_field(dataset);
  if (field == nullptr) throw nb::value_error("no masks were packed with the images");
  return {store::field_files(dataset.opened, field->name)};
}

Dataset field_images(const Dataset& dataset, const std::string& field) {
  if (std::ranges::count(image_fields(dataset), field) == 0) {
    throw nb::value_error("no images were packed in a field of that name");
  }
  return {store::field_files(dataset.opened, field)};
}

nb::list annotations(const Dataset& dataset) {
  std::vector<std::optional<std::string>> found;
  {
    const WithoutInterpreter released;
    found = unwrap(store::read_texts(*dataset.opened, store::kAnnotationsField));
  }
  return texts(found);
}

// Returns the paths of the samples' files in their source, as far as they are known without
// reading; None if some are not known.
std::optional<nb::list> source_paths(const Dataset& dataset) {
  nb::list out;
  for (uint64_t i = 0; i < dataset.opened->sample_count(); ++i) {
    const std::string path = dataset.opened->source_path(i);
    if (path.empty()) return std::nullopt;
    out.append(name(path));
  }
  return out;
}

store::SampleNames sample_names(const nb::list& keys, const nb::list& paths) {
  return {names_of(keys), names_of(paths)};
}

// Returns sample numbers, with -1 in the place of kNoSample.
Array<int64_t> numbers(const std::vector<uint64_t>& samples) {
  return to_array(std::vector<int64_t>(samples.begin(), samples.end()));
}

// Returns, for the file name of each image, the number of its sample; -1 if there is none, -2 if
// several samples match equally well.
Array<int64_t> find_samples(const store::ImageNames& samples, const nb::list& file_names) {
  std::vector<int64_t> out;
  for (const std::string& name : names_of(file_names)) {
    const store::ImageNames::Match found = samples.find(name);
    out.push_back(found.sample         ? static_cast<int64_t>(*found.sample)
                  : found.fits_several ? -2
                                       : -1);
  }
  return to_array(std::move(out));
}

Array<int64_t> match_samples(const store::ImageNames& samples, const nb::list& file_names) {
  return numbers(unwrap(samples.match(names_of(file_names))));
}

Array<int64_t> samples_with_same_names(const nb::list& keys, const nb::list& paths,
                                       const nb::list& other_keys, const nb::list& other_paths,
                                       const std::string& pattern,
                                       const std::string& other_pattern) {
  const store::NamePatterns patterns{unwrap(store::NamePattern::parse(pattern)),
                                     unwrap(store::NamePattern::parse(other_pattern))};
  return numbers(unwrap(store::same_names(sample_names(keys, paths),
                                          sample_names(other_keys, other_paths), patterns)));
}

nb::bytes read(const Dataset& dataset, uint64_t sample) {
  const store::Dataset& opened = with(dataset, sample);
  base::ByteVector file;
  {
    const WithoutInterpreter released;
    const uint32_t chunk = opened.chunk_of(sample);
    check(opened.load_locations({&chunk, 1}, {}));
    check(opened.read_file(opened.location(sample), &file)
              .at(fmt::format("{}: sample {}", opened.path(), sample)));
  }
  return nb::bytes(file.data(), file.size());
}

nb::str key(const Dataset& dataset, uint64_t sample) {
  std::string found;
  {
    const WithoutInterpreter released;
    found = unwrap(with(dataset, sample).key(sample));
  }
  return name(found);
}

nb::list keys(const Dataset& dataset) {
  std::vector<std::string> found;
  {
    const WithoutInterpreter released;
    found.reserve(dataset.opened->sample_count());
    for (uint32_t chunk = 0; chunk < dataset.opened->chunk_count(); ++chunk) {
      for (std::string& one : unwrap(dataset.opened->chunk_keys(chunk))) {
        found.push_back(std::move(one));
      }
    }
  }
  return names(found);
}

std::optional<uint64_t> find(const Dataset& dataset, const nb::str& key_name) {
  const std::string key = name_of(key_name);
  const WithoutInterpreter released;
  return unwrap(dataset.opened->find(key));
}

}  // namespace

void bind_dataset(nb::module_& m) {
  m.def(
      "storage_argument",
      [](const std::string& text) { return unwrap(io::s3::parse_argument(text)); }, nb::arg("text"),
      "The name and the value of --storage-option NAME=VALUE.");
  nb::class_<Dataset>(m, "Dataset", "A packed dataset, or images in place.")
      .def_static("open", &open, nb::arg("path"), nb::arg("storage_options"),
                  nb::arg("index_cache"), nb::arg("cache").none())
      .def_static("open_files", &open_files, nb::arg("paths"), nb::arg("cache").none(),
                  "Image files of this machine as a dataset without classes.")
      .def_prop_ro("path", [](const Dataset& d) { return name(d.opened->path()); })
      .def_prop_ro("classes", [](const Dataset& d) { return names(d.opened->schema().classes); })
      .def_prop_ro("fingerprint",
                   [](const Dataset& d) { return base::to_hex(d.opened->fingerprint()); })
      .def("__len__", [](const Dataset& d) { return d.opened->sample_count(); })
      .def("select", &select, nb::arg("samples"), "A view of the samples with these numbers.")
      .def_static("concat", &concat, nb::arg("parts"), nb::arg("merges_classes"),
                  "A view of all parts' samples.")
      .def_prop_ro(
          "has_indexes", [](const Dataset& d) { return !d.opened->in_place(); },
          "Whether the dataset has chunk indexes, which columns() reads.")
      .def_prop_ro("scalar_fields", &scalar_fields, "Names of the fields that columns() has.")
      .def_prop_ro("class_field", &class_field,
                   "The name of the field that labels come from; empty if there is none.")
      .def("columns", &columns,
           "The values of all samples in the chunk indexes, by column: arrays of numbers, or lists "
           "of texts or None.")
      .def("lengths", &lengths, "Bytes of the image files, int64 [samples].")
      .def("labels", &labels, "Class numbers, int64 [samples]; -1 for a sample without a class.")
      .def_prop_ro("has_masks", [](const Dataset& d) { return mask_field(d) != nullptr; })
      .def("masks", &masks, "A dataset of the masks that were packed with the images.")
      .def_prop_ro("image_fields", &image_fields,
                   "Names of the fields with further images that were packed with the samples.")
      .def("field_images", &field_images, nb::arg("field"),
           "A dataset of the images in one of image_fields.")
      .def_prop_ro("has_annotations", &has_annotations)
      .def("annotations", &annotations,
           "Each sample's annotations, as JSON in COCO's format; None for a sample without any.")
      .def_prop_ro("has_labels", &has_labels, "Whether any sample has a class number.")
      .def("read", &read, nb::arg("sample"),
           "The image file of a sample, after comparing its checksum.")
      .def("key", &key, nb::arg("sample"))
      .def("keys", &keys)
      .def("source_paths", &source_paths,
           "The paths of the samples' files in the source; None if they have to be read.")
      .def("find", &find, nb::arg("key"), "The sample with this key, or None.");
  nb::class_<store::ImageNames>(m, "ImageNames",
                                "The names of samples (store/source/image_names.h).")
      .def(
          "__init__",
          [](store::ImageNames* self, const nb::list& keys, const nb::list& paths) {
            new (self) store::ImageNames(sample_names(keys, paths));
          },
          nb::arg("keys"), nb::arg("paths"))
      .def("find", &find_samples, nb::arg("file_names"),
           "For the file name of each image, the number of its sample; -1 if there is none, -2 if "
           "it fits several.")
      .def("match", &match_samples, nb::arg("file_names"),
           "The same numbers for annotations; a ValueError if names leave a choice.");
  m.def("samples_with_same_names", &samples_with_same_names, nb::arg("keys"), nb::arg("paths"),
        nb::arg("other_keys"), nb::arg("other_paths"), nb::arg("pattern"), nb::arg("other_pattern"),
        "For each sample, the number of the other dataset's sample with its name; -1: none. The "
        "patterns have {} for the part that both names share.");
  m.def(
      "may_be_twins", [](const nb::list& keys) { return store::may_be_twins(names_of(keys)); },
      nb::arg("keys"), "Whether names of a folder may differ only in their suffixes.");
}

}  // namespace forebay::bind
