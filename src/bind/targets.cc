#include "feed/batch/targets.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind/arrays.h"
#include "bind/dataset.h"

namespace forebay::bind {
namespace {

template <class T>
using Given = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Quads = nb::ndarray<const float, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;
using Colours = nb::ndarray<const uint8_t, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;
using Sides = nb::ndarray<const uint32_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Triples = nb::ndarray<const float, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> values(const Given<T>& given) {
  return {given.data(), given.data() + given.size()};
}

// Returns the rows of an array as structs of floats.
template <class T, class Rows>
std::vector<T> rows(const Rows& given) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(float) == 0);
  const auto* const first = reinterpret_cast<const T*>(given.data());
  return {first, first + given.shape(0)};
}

// `colours`: red, green, blue and the label of each entry.
std::shared_ptr<image::Palette> make_palette(const Colours& colours,
                                             std::optional<uint8_t> others) {
  std::vector<image::Palette::Entry> entries;
  for (size_t i = 0; i < colours.shape(0); ++i) {
    entries.push_back({{colours(i, 0), colours(i, 1), colours(i, 2)}, colours(i, 3)});
  }
  return std::make_shared<image::Palette>(entries, others);
}

feed::Outlines make_outlines(const Given<uint64_t>& first_part, const Given<uint64_t>& first_number,
                             const Given<uint8_t>& is_runs, const Given<int32_t>& numbers,
                             const Given<double>& fractions) {
  return {values(first_part), values(first_number), values(is_runs), values(numbers),
          values(fractions)};
}

std::shared_ptr<feed::Targets> make_targets(const Given<uint64_t>& first, const Quads& boxes,
                                            bool are_fractions, uint32_t points_each,
                                            const Triples& points, const Sides& pairs,
                                            std::optional<feed::Outlines> outlines,
                                            const Sides& sizes, image::DrawnOn drawn_on,
                                            const Dataset* maps, const Given<uint64_t>& map_of,
                                            std::shared_ptr<image::Palette> palette) {
  auto out = std::make_shared<feed::Targets>();
  out->first = values(first);
  out->boxes = rows<image::Bounds>(boxes);
  out->are_fractions = are_fractions;
  out->points_each = points_each;
  out->points = rows<image::Point>(points);
  out->outlines = std::move(outlines);
  for (size_t i = 0; i < pairs.shape(0); ++i) out->pairs.push_back({pairs(i, 0), pairs(i, 1)});
  out->drawn_on = drawn_on;
  for (size_t i = 0; i < sizes.shape(0); ++i) out->sizes.push_back({sizes(i, 0), sizes(i, 1)});
  if (maps != nullptr) out->maps = maps->opened;
  out->map_of = values(map_of);
  out->palette = std::move(palette);
  return out;
}

// Converts corners of polygons (x and y in turn, in pixels) to the numbers of Outlines.
Array<int32_t> corners(const Given<double>& numbers) {
  std::vector<int32_t> out;
  out.reserve(numbers.size());
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
    const image::Corner corner = image::corner_at(numbers.data()[i], numbers.data()[i + 1]);
    out.push_back(corner.x);
    out.push_back(corner.y);
  }
  return to_array(std::move(out));
}

}  // namespace

void bind_targets(nb::module_& m) {
  nb::enum_<image::DrawnOn>(m, "DrawnOn")
      .value("BY_SIZE", image::DrawnOn::kBySize)
      .value("STORED", image::DrawnOn::kStored)
      .value("SHOWN", image::DrawnOn::kShown);
  nb::class_<feed::Outlines>(m, "Outlines", "Outlines of objects (feed/batch/targets.h).")
      .def(
          "__init__",
          [](feed::Outlines* self, const Given<uint64_t>& first_part,
             const Given<uint64_t>& first_number, const Given<uint8_t>& is_runs,
             const Given<int32_t>& numbers, const Given<double>& fractions) {
            new (self) feed::Outlines(
                make_outlines(first_part, first_number, is_runs, numbers, fractions));
          },
          nb::arg("first_part"), nb::arg("first_number"), nb::arg("is_runs"), nb::arg("numbers"),
          nb::arg("fractions"));
  static_cast<void>(nb::class_<image::Palette>(
      m, "Palette", "The labels of the colours of masks (image/palette.h)."));
  m.def("make_palette", &make_palette, nb::arg("colours"), nb::arg("others").none(),
        "Colours and their labels as uint8 [colours, 4]: red, green, blue and the label. `others` "
        "is the label of all other colours; None: they are an error.");
  static_cast<void>(nb::class_<feed::Targets>(
      m, "Targets", "Boxes, keypoints, outlines and masks of a dataset (feed/batch/targets.h)."));
  m.def("make_targets", &make_targets, nb::arg("first"), nb::arg("boxes"), nb::arg("are_fractions"),
        nb::arg("points_each"), nb::arg("points"), nb::arg("pairs"), nb::arg("outlines").none(),
        nb::arg("sizes"), nb::arg("drawn_on"), nb::arg("maps").none(), nb::arg("map_of"),
        nb::arg("palette").none());
  m.def("corners", &corners, nb::arg("numbers"),
        "Converts corners of polygons (x and y in turn, in pixels) to the numbers of Outlines.");
  m.def(
      "decode_runs",
      [](const std::string& text) { return to_array(unwrap(image::decode_runs(text))); },
      nb::arg("text"), "Decodes the run lengths in COCO's compressed text.");
}

}  // namespace forebay::bind
