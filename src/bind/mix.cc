#include "image/transform/mix.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"

namespace forebay::bind {
namespace {

using namespace image;
using Images = nb::ndarray<nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

DType dtype_of(const nb::dlpack::dtype& dtype) {
  if (dtype == nb::dtype<uint8_t>()) return DType::kUint8;
  if (dtype == nb::dtype<float>()) return DType::kFloat32;
  if (dtype.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat) && dtype.bits == 16) {
    return DType::kBfloat16;
  }
  if (dtype.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float) && dtype.bits == 16) {
    return DType::kFloat16;
  }
  throw nb::type_error("images are not of uint8, float32, bfloat16 or float16");
}

Mix draw(const std::vector<MixChoice>& choices, uint32_t height, uint32_t width, uint64_t seed,
         uint64_t epoch, uint64_t step) {
  return draw_mix(choices, {width, height}, {seed, base::Purpose::kMix, epoch, step});
}

void mix(const Images& images, const Labels& labels, const Mix& drawn, bool channels_last) {
  const size_t first = channels_last ? 1 : 2;
  const BatchShape shape{.samples = images.shape(0),
                         .size = {static_cast<uint32_t>(images.shape(first + 1)),
                                  static_cast<uint32_t>(images.shape(first))},
                         .dtype = dtype_of(images.dtype()),
                         .layout = channels_last ? Layout::kNhwc : Layout::kNchw};
  if (images.shape(channels_last ? 3 : 1) != 3 || labels.shape(0) != shape.samples) {
    throw nb::value_error("images are not of three channels, or not as many as labels");
  }
  Status status;
  {
    const WithoutInterpreter released;
    status = mix_images(drawn, shape, static_cast<uint8_t*>(images.data()));
    if (status.ok()) mix_labels(drawn, labels.shape(0), labels.shape(1), labels.data());
  }
  check(status);
}

nb::object box_of(const Mix& drawn) {
  if (!drawn.box) return nb::none();
  return nb::make_tuple(drawn.box->x, drawn.box->y, drawn.box->width, drawn.box->height);
}

}  // namespace

void bind_mix(nb::module_& m) {
  nb::enum_<MixKind>(m, "MixKind")
      .value("MIX_UP", MixKind::kMixUp)
      .value("CUT_MIX", MixKind::kCutMix);
  nb::class_<MixChoice>(m, "MixChoice")
      .def(nb::init<MixKind, double, double>(), nb::arg("kind"), nb::arg("alpha"),
           nb::arg("weight"));
  nb::class_<Mix>(m, "Mix", "How a batch is mixed, as it was drawn.")
      .def_ro("kind", &Mix::kind)
      .def_ro("own", &Mix::own, "The weight of a sample's own label.")
      .def_prop_ro("box", &box_of,
                   "x, y, width and height of the rectangle that is cut; None if nothing is cut.");
  m.def("draw_mix", &draw, nb::arg("choices"), nb::arg("height"), nb::arg("width"), nb::arg("seed"),
        nb::arg("epoch"), nb::arg("step"));
  m.def("mix", &mix, nb::arg("images").noconvert(), nb::arg("labels").noconvert(), nb::arg("drawn"),
        nb::arg("channels_last"), "Mixes images and soft labels in place.");
}

}  // namespace forebay::bind
