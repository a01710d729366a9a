#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bind/bind.h"
#include "image/prepare.h"

namespace forebay::bind {
namespace {

using Bytes = nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>, nb::c_contig>;

// Returns the tensor value of each byte value, for red, green and blue, as the bytes of numbers of
// the tensor's type: uint8 [3, 256 x bytes of the type].
Bytes normalized_values(const image::TensorOptions& options) {
  const size_t bytes = image::dtype_bytes(options.dtype);
  const auto numbers = image::TensorWriter(options).numbers();
  auto* const out = new std::vector<uint8_t>(numbers.size() * bytes);
  const nb::capsule owner(out,
                          [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::memcpy(out->data() + i * bytes, &numbers[i], bytes);  // the low bytes come first
  }
  return Bytes(out->data(), {3, 256 * bytes}, owner);
}

void bind_crops(nb::module_& m) {
  using namespace image;
  nb::enum_<Interpolation>(m, "Interpolation")
      .value("NEAREST", Interpolation::kNearest)
      .value("NEAREST_EXACT", Interpolation::kNearestExact)
      .value("BILINEAR", Interpolation::kBilinear)
      .value("BICUBIC", Interpolation::kBicubic);
  nb::class_<RandomResizedCrop>(m, "RandomResizedCrop")
      .def(nb::init<>())
      .def_rw("scale_min", &RandomResizedCrop::scale_min)
      .def_rw("scale_max", &RandomResizedCrop::scale_max)
      .def_rw("ratio_min", &RandomResizedCrop::ratio_min)
      .def_rw("ratio_max", &RandomResizedCrop::ratio_max);
  nb::class_<Size>(m, "Size", "A size in pixels.")
      .def(nb::init<uint32_t, uint32_t>(), nb::arg("width"), nb::arg("height"))
      .def_ro("width", &Size::width)
      .def_ro("height", &Size::height);
  nb::class_<ShortSide>(m, "ShortSide")
      .def(nb::init<uint32_t, std::optional<uint32_t>>(), nb::arg("pixels"),
           nb::arg("longest") = nb::none())
      .def_ro("pixels", &ShortSide::pixels)
      .def_ro("longest", &ShortSide::longest);
  nb::class_<Padding>(m, "Padding")
      .def(nb::init<uint32_t, uint32_t, uint32_t, uint32_t>(), nb::arg("left"), nb::arg("top"),
           nb::arg("right"), nb::arg("bottom"))
      .def_ro("left", &Padding::left)
      .def_ro("top", &Padding::top)
      .def_ro("right", &Padding::right)
      .def_ro("bottom", &Padding::bottom);
  nb::enum_<BorderKind>(m, "BorderKind")
      .value("CONSTANT", BorderKind::kConstant)
      .value("EDGE", BorderKind::kEdge)
      .value("REFLECT", BorderKind::kReflect)
      .value("SYMMETRIC", BorderKind::kSymmetric);
  nb::class_<Border>(m, "Border")
      .def(nb::init<BorderKind, std::array<uint8_t, 3>, uint8_t>(), nb::arg("kind"),
           nb::arg("fill"), nb::arg("mask_fill") = 0)
      .def_ro("kind", &Border::kind)
      .def_ro("fill", &Border::fill)
      .def_ro("mask_fill", &Border::mask_fill);
  nb::class_<RandomCrop>(m, "RandomCrop")
      .def(nb::init<>())
      .def_rw("resize", &RandomCrop::resize, nb::arg().none())
      .def_rw("padding", &RandomCrop::padding)
      .def_rw("pad_if_needed", &RandomCrop::pad_if_needed)
      .def_rw("border", &RandomCrop::border);
  nb::class_<CentreCrop>(m, "CentreCrop")
      .def(nb::init<>())
      .def_rw("resize", &CentreCrop::resize, nb::arg().none());
  nb::class_<WholeImage>(m, "WholeImage")
      .def(nb::init<>())
      .def_rw("resize", &WholeImage::resize, nb::arg().none());
  m.def(
      "resized_size",
      [](const std::optional<Resize>& resize, const Size& image) {
        return unwrap(resized_size(resize, image));
      },
      nb::arg("resize").none(), nb::arg("image"), "The size of an image after the resize.");
}

void bind_tensors(nb::module_& m) {
  using namespace image;
  nb::class_<RandomErasing>(m, "RandomErasing")
      .def(nb::init<>())
      .def_rw("probability", &RandomErasing::probability)
      .def_rw("scale_min", &RandomErasing::scale_min)
      .def_rw("scale_max", &RandomErasing::scale_max)
      .def_rw("ratio_min", &RandomErasing::ratio_min)
      .def_rw("ratio_max", &RandomErasing::ratio_max)
      .def_rw("value", &RandomErasing::value)
      .def_rw("noise", &RandomErasing::noise);
  nb::class_<Transform>(m, "Transform")
      .def(nb::init<>())
      .def_rw("size", &Transform::size)
      .def_rw("crop", &Transform::crop)
      .def_rw("flip", &Transform::flip)
      .def_rw("vertical_flip", &Transform::vertical_flip)
      .def_rw("crop_size", &Transform::crop_size, nb::arg().none())
      .def_rw("steps", &Transform::steps)
      .def_rw("erasing", &Transform::erasing)
      .def_rw("interpolation", &Transform::interpolation)
      .def_rw("oriented", &Transform::oriented);
  nb::enum_<DType>(m, "DType")
      .value("UINT8", DType::kUint8)
      .value("FLOAT32", DType::kFloat32)
      .value("BFLOAT16", DType::kBfloat16)
      .value("FLOAT16", DType::kFloat16);
  nb::enum_<Layout>(m, "Layout").value("NCHW", Layout::kNchw).value("NHWC", Layout::kNhwc);
  nb::class_<TensorOptions>(m, "TensorOptions")
      .def(nb::init<>())
      .def_rw("dtype", &TensorOptions::dtype)
      .def_rw("layout", &TensorOptions::layout)
      .def_rw("mean", &TensorOptions::mean)
      .def_rw("std", &TensorOptions::std);
  m.def(
      "drawn_size",
      [](const Transform& transform, const Size& image) {
        return unwrap(draw(transform, image, base::Random(0, base::Purpose::kAugment))).size;
      },
      nb::arg("transform"), nb::arg("image"),
      "The size of the sample that a transform makes of an image, if that size is not random.");
  m.def("normalized_values", &normalized_values, nb::arg("tensor"),
        "The tensor value of each byte value, for red, green and blue, as the bytes of numbers of "
        "the tensor's type: uint8 [3, 256 x bytes of the type].");
}

}  // namespace

void bind_transforms(nb::module_& m) {
  bind_crops(m);
  bind_steps(m);
  bind_tensors(m);
}

}  // namespace forebay::bind
