#include "image/augment/steps.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"
#include "image/augment/performer.h"

namespace forebay::bind {
namespace {

using namespace image;

using Image = nb::ndarray<nb::numpy, uint8_t, nb::shape<-1, -1, 3>, nb::c_contig>;
using GivenImage = nb::ndarray<const uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;

// Performs actions on an image; returns the new image, uint8 [height, width, 3].
Image performed(const GivenImage& image, const std::vector<Action>& actions) {
  Picture picture;
  picture.reset({static_cast<uint32_t>(image.shape(1)), static_cast<uint32_t>(image.shape(0))});
  for (uint32_t y = 0; y < picture.size().height; ++y) {
    for (size_t i = 0; i < size_t{3} * picture.size().width; ++i) {
      picture.row(i % 3, y)[i / 3] = image.data()[y * image.shape(1) * 3 + i];
    }
  }
  Size size = picture.size();
  for (const Action& action : actions) {
    const auto* const cut = std::get_if<Cut>(&action);
    if (cut != nullptr && !cut->region.inside(size.width, size.height)) {
      throw nb::value_error("the actions were drawn for a larger image");
    }
    size = size_after(action, size);
  }
  Performer().perform(actions, &picture);
  base::Pixels made;
  PictureRows(picture, whole(picture.size())).move_to(&made);
  auto* const out = new base::ByteVector(std::move(made.rgb));
  const nb::capsule owner(out, [](void* p) noexcept { delete static_cast<base::ByteVector*>(p); });
  return Image(out->data(), {made.height, made.width, 3}, owner);
}

void bind_tones(nb::module_& m) {
  nb::class_<Brightness>(m, "Brightness").def_ro("factor", &Brightness::factor);
  nb::class_<Contrast>(m, "Contrast").def_ro("factor", &Contrast::factor);
  nb::class_<Saturation>(m, "Saturation").def_ro("factor", &Saturation::factor);
  nb::class_<Hue>(m, "Hue").def_ro("shift", &Hue::shift);
  nb::class_<Sharpness>(m, "Sharpness")
      .def(nb::init<double>(), nb::arg("factor"))
      .def_ro("factor", &Sharpness::factor);
  nb::class_<Posterize>(m, "Posterize")
      .def(nb::init<uint32_t>(), nb::arg("bits"))
      .def_ro("bits", &Posterize::bits);
  nb::class_<Solarize>(m, "Solarize")
      .def(nb::init<double>(), nb::arg("threshold"))
      .def_ro("threshold", &Solarize::threshold);
  nb::class_<SolarizeAdd>(m, "SolarizeAdd")
      .def_ro("added", &SolarizeAdd::added)
      .def_ro("threshold", &SolarizeAdd::threshold);
  nb::class_<Invert>(m, "Invert").def(nb::init<>());
  nb::class_<Autocontrast>(m, "Autocontrast").def(nb::init<>());
  nb::class_<Equalize>(m, "Equalize").def(nb::init<>());
  nb::class_<Grey>(m, "Grey").def(nb::init<>());
  nb::class_<PermuteChannels>(m, "PermuteChannels").def_ro("order", &PermuteChannels::order);
}

void bind_geometry(nb::module_& m) {
  nb::class_<WarpOptions>(m, "WarpOptions")
      .def(nb::init<Interpolation, std::optional<std::array<float, 3>>, uint8_t>(),
           nb::arg("interpolation"), nb::arg("fill").none(), nb::arg("mask_fill") = 0)
      .def_ro("interpolation", &WarpOptions::interpolation)
      .def_ro("fill", &WarpOptions::fill)
      .def_ro("mask_fill", &WarpOptions::mask_fill);
  nb::class_<Blur>(m, "Blur").def_ro("length", &Blur::length).def_ro("sigma", &Blur::sigma);
  nb::class_<Flip>(m, "Flip")
      .def(nb::init<bool, bool>(), nb::arg("across"), nb::arg("down"))
      .def_ro("across", &Flip::across)
      .def_ro("down", &Flip::down);
  nb::class_<QuarterTurns>(m, "QuarterTurns").def_ro("count", &QuarterTurns::count);
  nb::class_<AffineWarp>(m, "AffineWarp")
      .def_prop_ro("map", [](const AffineWarp& self) { return self.map.m; })
      .def_prop_ro("canvas",
                   [](const AffineWarp& self) {
                     using Sides = std::array<uint32_t, 2>;
                     return self.canvas
                                ? std::optional(Sides{self.canvas->width, self.canvas->height})
                                : std::nullopt;
                   })
      .def_ro("options", &AffineWarp::options);
  nb::class_<Perspective>(m, "Perspective")
      .def_prop_ro("map", [](const Perspective& self) { return self.map.m; })
      .def_ro("options", &Perspective::options);
  nb::class_<Cut::Outside>(m, "Outside")
      .def_ro("border", &Cut::Outside::border)
      .def_prop_ro(
          "image",
          [](const Cut::Outside& self) { return std::array{self.image.width, self.image.height}; })
      .def_prop_ro("viewport", [](const Cut::Outside& self) {
        const Viewport& shown = self.viewport;
        return std::array<int64_t, 4>{shown.x, shown.y, shown.size.width, shown.size.height};
      });
  const auto numbers = [](const Rect& rect) {
    return std::array{rect.x, rect.y, rect.width, rect.height};
  };
  nb::class_<Cut>(m, "Cut")
      .def_prop_ro("region", [=](const Cut& self) { return numbers(self.region); })
      .def_prop_ro(
          "resized",
          [](const Cut& self) { return std::array{self.resized.width, self.resized.height}; })
      .def_prop_ro("kept", [=](const Cut& self) { return numbers(self.kept); })
      .def_ro("outside", &Cut::outside)
      .def_ro("interpolation", &Cut::interpolation);
  nb::class_<Blend::Chain>(m, "Chain")
      .def_ro("weight", &Blend::Chain::weight)
      .def_ro("actions", &Blend::Chain::actions);
  nb::class_<Blend>(m, "Blend").def_ro("own", &Blend::own).def_ro("chains", &Blend::chains);
}

void bind_random(nb::module_& m) {
  nb::class_<Range>(m, "Range")
      .def(nb::init<double, double>(), nb::arg("min"), nb::arg("max"))
      .def_ro("min", &Range::min)
      .def_ro("max", &Range::max);
  using MaybeRange = std::optional<Range>;
  nb::class_<ColourJitter>(m, "ColourJitter")
      .def(nb::init<MaybeRange, MaybeRange, MaybeRange, MaybeRange>(), nb::arg("brightness").none(),
           nb::arg("contrast").none(), nb::arg("saturation").none(), nb::arg("hue").none());
  nb::class_<PhotometricDistortion>(m, "PhotometricDistortion")
      .def(nb::init<Range, Range, Range, Range, double>(), nb::arg("brightness"),
           nb::arg("contrast"), nb::arg("saturation"), nb::arg("hue"), nb::arg("probability"));
  nb::class_<ChannelPermutation>(m, "ChannelPermutation").def(nb::init<>());
  nb::class_<GaussianBlur>(m, "GaussianBlur")
      .def(nb::init<std::array<uint32_t, 2>, Range>(), nb::arg("length"), nb::arg("sigma"));
  nb::class_<RandomRotation>(m, "RandomRotation")
      .def(nb::init<Range, WarpOptions, Centre, bool>(), nb::arg("degrees"), nb::arg("options"),
           nb::arg("centre").none(), nb::arg("expand") = false);
  nb::class_<RandomAffine>(m, "RandomAffine")
      .def(nb::init<Range, std::optional<std::array<double, 2>>, MaybeRange,
                    std::optional<std::array<Range, 2>>, WarpOptions, Centre>(),
           nb::arg("degrees"), nb::arg("translate").none(), nb::arg("scale").none(),
           nb::arg("shear").none(), nb::arg("options"), nb::arg("centre").none());
  nb::class_<RandomPerspective>(m, "RandomPerspective")
      .def(nb::init<double, double, WarpOptions>(), nb::arg("distortion"), nb::arg("probability"),
           nb::arg("options"));
  nb::class_<Cropping>(m, "Cropping")
      .def(nb::init<Crop, Size, Interpolation>(), nb::arg("crop"), nb::arg("size"),
           nb::arg("interpolation"));
  nb::class_<Pad>(m, "Pad").def(nb::init<Padding, Border>(), nb::arg("padding"), nb::arg("border"));
  nb::class_<RandomZoomOut>(m, "RandomZoomOut")
      .def(nb::init<Range, std::array<uint8_t, 3>, double, uint8_t>(), nb::arg("factor"),
           nb::arg("fill"), nb::arg("probability"), nb::arg("mask_fill") = 0);
  nb::class_<RandomIouCrop>(m, "RandomIouCrop")
      .def(nb::init<Range, Range, std::vector<double>, uint32_t>(), nb::arg("scale"),
           nb::arg("ratio"), nb::arg("overlaps"), nb::arg("trials"));
  nb::class_<ScaleJitter>(m, "ScaleJitter")
      .def(nb::init<Size, Range, Interpolation>(), nb::arg("target"), nb::arg("scale"),
           nb::arg("interpolation"));
  nb::class_<RandomShortestSize>(m, "RandomShortestSize")
      .def(nb::init<std::vector<uint32_t>, std::optional<uint32_t>, Interpolation>(),
           nb::arg("sizes"), nb::arg("longest").none(), nb::arg("interpolation"));
  nb::class_<RandomResize>(m, "RandomResize")
      .def(nb::init<uint32_t, uint32_t, Interpolation>(), nb::arg("min"), nb::arg("max"),
           nb::arg("interpolation"));
  nb::class_<RandomApply>(m, "RandomApply")
      .def(nb::init<double, std::vector<Step>>(), nb::arg("probability"), nb::arg("steps"));
  nb::class_<RandomChoice>(m, "RandomChoice")
      .def(nb::init<std::vector<double>, std::vector<Step>, uint32_t, bool>(), nb::arg("weights"),
           nb::arg("steps"), nb::arg("count") = 1, nb::arg("may_repeat") = true);
  nb::class_<ChainMixture>(m, "ChainMixture")
      .def(nb::init<uint32_t, uint32_t, double, std::vector<Step>>(), nb::arg("width"),
           nb::arg("depth"), nb::arg("alpha"), nb::arg("steps"));
  nb::class_<RandomOrder>(m, "RandomOrder").def(nb::init<std::vector<Step>>(), nb::arg("steps"));
}

void bind_policies(nb::module_& m) {
  nb::enum_<Policy>(m, "Policy")
      .value("IMAGENET", Policy::kImageNet)
      .value("CIFAR10", Policy::kCifar10)
      .value("SVHN", Policy::kSvhn);
  nb::class_<AutoAugment>(m, "AutoAugment")
      .def(nb::init<Policy, WarpOptions>(), nb::arg("policy"), nb::arg("options"));
  nb::class_<RandAugment>(m, "RandAugment")
      .def(nb::init<uint32_t, uint32_t, uint32_t, WarpOptions>(), nb::arg("count"),
           nb::arg("magnitude"), nb::arg("bins"), nb::arg("options"));
  nb::class_<TrivialAugmentWide>(m, "TrivialAugmentWide")
      .def(nb::init<uint32_t, WarpOptions>(), nb::arg("bins"), nb::arg("options"));
  nb::enum_<Operation>(m, "Operation")
      .value("AUTOCONTRAST", Operation::kAutocontrast)
      .value("EQUALIZE", Operation::kEqualize)
      .value("INVERT", Operation::kInvert)
      .value("ROTATE", Operation::kRotate)
      .value("POSTERIZE", Operation::kPosterize)
      .value("SOLARIZE", Operation::kSolarize)
      .value("SOLARIZE_ADD", Operation::kSolarizeAdd)
      .value("COLOUR", Operation::kColour)
      .value("CONTRAST", Operation::kContrast)
      .value("BRIGHTNESS", Operation::kBrightness)
      .value("SHARPNESS", Operation::kSharpness)
      .value("SHEAR_X", Operation::kShearX)
      .value("SHEAR_Y", Operation::kShearY)
      .value("TRANSLATE_X", Operation::kTranslateX)
      .value("TRANSLATE_Y", Operation::kTranslateY)
      .value("TRANSLATE_X_SHARE", Operation::kTranslateXShare)
      .value("TRANSLATE_Y_SHARE", Operation::kTranslateYShare)
      .value("BLUR", Operation::kBlur)
      .value("BLUR_UP_TO", Operation::kBlurUpTo);
  nb::class_<AugmentOp>(m, "AugmentOp")
      .def(nb::init<>())
      .def_rw("operation", &AugmentOp::operation)
      .def_rw("probability", &AugmentOp::probability)
      .def_rw("magnitude", &AugmentOp::magnitude)
      .def_rw("deviation", &AugmentOp::deviation, nb::arg().none())
      .def_rw("magnitude_most", &AugmentOp::magnitude_most)
      .def_rw("base", &AugmentOp::base)
      .def_rw("slope", &AugmentOp::slope)
      .def_rw("either_sign", &AugmentOp::either_sign)
      .def_rw("whole", &AugmentOp::whole)
      .def_rw("least", &AugmentOp::least)
      .def_rw("most", &AugmentOp::most)
      .def_rw("options", &AugmentOp::options);
  nb::class_<AugMix>(m, "AugMix")
      .def(nb::init<uint32_t, uint32_t, uint32_t, double, bool, WarpOptions>(), nb::arg("severity"),
           nb::arg("width"), nb::arg("depth"), nb::arg("alpha"), nb::arg("all"),
           nb::arg("options"));
}

}  // namespace

void bind_steps(nb::module_& m) {
  bind_tones(m);
  bind_geometry(m);
  bind_random(m);
  bind_policies(m);
  m.def(
      "draw_actions",
      [](const std::vector<Step>& steps, const Size& size, uint64_t seed, uint64_t epoch,
         uint64_t sample, const std::vector<std::array<float, 4>>& boxes) {
        check(check_steps(steps, size));
        base::Random random(seed, base::Purpose::kAugment, epoch, sample);
        Annotations objects;
        for (const auto& [left, top, right, bottom] : boxes) {
          objects.boxes.push_back({left, top, right, bottom});
        }
        return unwrap(draw_actions(steps, size, random, &objects));
      },
      nb::arg("steps"), nb::arg("size"), nb::arg("seed"), nb::arg("epoch"), nb::arg("sample"),
      nb::arg("boxes") = std::vector<std::array<float, 4>>(),
      "The actions that steps draw for a sample with an image of this size and these boxes.");
  m.def(
      "check_steps",
      [](const std::vector<Step>& steps, const std::optional<Size>& size) {
        check(check_steps(steps, size));
      },
      nb::arg("steps"), nb::arg("size").none(),
      "Raises ValueError if steps cannot be drawn for images of this size (None: of any size).");
  m.def("performed", &performed, nb::arg("image"), nb::arg("actions"),
        "Performs actions on an image; returns the new image, uint8 [height, width, 3].");
}

}  // namespace forebay::bind
