#include <nanobind/stl/array.h>
#include <nanobind/stl/variant.h>

#include "bind/bind.h"
#include "image/prepare.h"

namespace forebay::bind {

void bind_transforms(nb::module_& m) {
  using namespace image;
  nb::enum_<Interpolation>(m, "Interpolation")
      .value("NEAREST", Interpolation::kNearest)
      .value("BILINEAR", Interpolation::kBilinear)
      .value("BICUBIC", Interpolation::kBicubic);
  nb::class_<RandomResizedCrop>(m, "RandomResizedCrop")
      .def(nb::init<>())
      .def_rw("scale_min", &RandomResizedCrop::scale_min)
      .def_rw("scale_max", &RandomResizedCrop::scale_max)
      .def_rw("ratio_min", &RandomResizedCrop::ratio_min)
      .def_rw("ratio_max", &RandomResizedCrop::ratio_max);
  nb::class_<RandomPaddedCrop>(m, "RandomPaddedCrop")
      .def(nb::init<>())
      .def_rw("padding", &RandomPaddedCrop::padding);
  nb::class_<RandomErasing>(m, "RandomErasing")
      .def(nb::init<>())
      .def_rw("probability", &RandomErasing::probability)
      .def_rw("scale_min", &RandomErasing::scale_min)
      .def_rw("scale_max", &RandomErasing::scale_max)
      .def_rw("ratio_min", &RandomErasing::ratio_min)
      .def_rw("ratio_max", &RandomErasing::ratio_max);
  nb::class_<TrainTransform>(m, "TrainTransform")
      .def(nb::init<>())
      .def_rw("size", &TrainTransform::size)
      .def_rw("crop", &TrainTransform::crop)
      .def_rw("flip", &TrainTransform::flip)
      .def_rw("erasing", &TrainTransform::erasing)
      .def_rw("interpolation", &TrainTransform::interpolation)
      .def_rw("scaled_decode", &TrainTransform::scaled_decode);
  nb::class_<EvalTransform>(m, "EvalTransform")
      .def(nb::init<>())
      .def_rw("size", &EvalTransform::size)
      .def_rw("resize", &EvalTransform::resize)
      .def_rw("interpolation", &EvalTransform::interpolation)
      .def_rw("scaled_decode", &EvalTransform::scaled_decode);
  nb::enum_<DType>(m, "DType")
      .value("UINT8", DType::kUint8)
      .value("FLOAT32", DType::kFloat32)
      .value("BFLOAT16", DType::kBfloat16);
  nb::enum_<Layout>(m, "Layout").value("NCHW", Layout::kNchw).value("NHWC", Layout::kNhwc);
  nb::class_<TensorOptions>(m, "TensorOptions")
      .def(nb::init<>())
      .def_rw("dtype", &TensorOptions::dtype)
      .def_rw("layout", &TensorOptions::layout)
      .def_rw("mean", &TensorOptions::mean)
      .def_rw("std", &TensorOptions::std);
}

}  // namespace forebay::bind
