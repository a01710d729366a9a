// The fields, in the order of their declarations, of all structs that describe how a sample is made
// from its image.
#pragma once

#include "base/fields.h"
#include "base/json_fields.h"
#include "base/pixels.h"
#include "image/prepare.h"

namespace forebay::base {

constexpr auto fields_of(const Rect*) { return fields("Rect", "x", "y", "width", "height"); }
template <>
inline constexpr bool kMayNest<image::Step> = true;
template <>
inline constexpr bool kMayNest<image::Action> = true;

}  // namespace forebay::base

namespace forebay::image {

constexpr auto fields_of(const Size*) { return base::fields("Size", "width", "height"); }

// image/transform/
constexpr auto fields_of(const Border*) {
  return base::fields("Border", "kind", "fill", "mask_fill");
}
constexpr auto fields_of(const Viewport*) { return base::fields("Viewport", "x", "y", "size"); }
constexpr auto fields_of(const RandomResizedCrop*) {
  return base::fields("RandomResizedCrop", "scale_min", "scale_max", "ratio_min", "ratio_max");
}
constexpr auto fields_of(const ShortSide*) {
  return base::fields("ShortSide", "pixels", "longest");
}
constexpr auto fields_of(const Padding*) {
  return base::fields("Padding", "left", "top", "right", "bottom");
}
constexpr auto fields_of(const RandomCrop*) {
  return base::fields("RandomCrop", "resize", "padding", "pad_if_needed", "border");
}
constexpr auto fields_of(const CentreCrop*) { return base::fields("CentreCrop", "resize"); }
constexpr auto fields_of(const WholeImage*) { return base::fields("WholeImage", "resize"); }
constexpr auto fields_of(const RandomErasing*) {
  return base::fields("RandomErasing", "probability", "scale_min", "scale_max", "ratio_min",
                      "ratio_max", "value", "noise");
}
constexpr auto fields_of(const Cut::Outside*) {
  return base::fields("Outside", "image", "viewport", "border");
}
constexpr auto fields_of(const Cut*) {
  return base::fields("Cut", "region", "resized", "kept", "outside", "interpolation");
}
constexpr auto fields_of(const TensorOptions*) {
  return base::fields("TensorOptions", "dtype", "layout", "mean", "std");
}

// image/augment/action.h
constexpr auto fields_of(const Affine*) { return base::fields("Affine", "m"); }
constexpr auto fields_of(const Projection*) { return base::fields("Projection", "m"); }
constexpr auto fields_of(const WarpOptions*) {
  return base::fields("WarpOptions", "interpolation", "fill", "mask_fill");
}
constexpr auto fields_of(const WarpWindow*) {
  return base::fields("WarpWindow", "picture", "source", "result");
}
constexpr auto fields_of(const Brightness*) { return base::fields("Brightness", "factor"); }
constexpr auto fields_of(const Contrast*) { return base::fields("Contrast", "factor"); }
constexpr auto fields_of(const Saturation*) { return base::fields("Saturation", "factor"); }
constexpr auto fields_of(const Hue*) { return base::fields("Hue", "shift"); }
constexpr auto fields_of(const Sharpness*) { return base::fields("Sharpness", "factor"); }
constexpr auto fields_of(const Posterize*) { return base::fields("Posterize", "bits"); }
constexpr auto fields_of(const Solarize*) { return base::fields("Solarize", "threshold"); }
constexpr auto fields_of(const SolarizeAdd*) {
  return base::fields("SolarizeAdd", "added", "threshold");
}
constexpr auto fields_of(const Invert*) { return base::fields("Invert"); }
constexpr auto fields_of(const Autocontrast*) { return base::fields("Autocontrast"); }
constexpr auto fields_of(const Equalize*) { return base::fields("Equalize"); }
constexpr auto fields_of(const Grey*) { return base::fields("Grey"); }
constexpr auto fields_of(const PermuteChannels*) {
  return base::fields("PermuteChannels", "order");
}
constexpr auto fields_of(const Blur*) { return base::fields("Blur", "length", "sigma"); }
constexpr auto fields_of(const Flip*) { return base::fields("Flip", "across", "down"); }
constexpr auto fields_of(const QuarterTurns*) { return base::fields("QuarterTurns", "count"); }
constexpr auto fields_of(const AffineWarp*) {
  return base::fields("AffineWarp", "map", "options", "window", "canvas");
}
constexpr auto fields_of(const Perspective*) {
  return base::fields("Perspective", "map", "options", "window");
}
constexpr auto fields_of(const Blend::Chain*) { return base::fields("Chain", "weight", "actions"); }
constexpr auto fields_of(const Blend*) { return base::fields("Blend", "own", "chains"); }
constexpr auto fields_of(const Action*) { return base::fields("Action"); }

// image/augment/steps.h
constexpr auto fields_of(const Range*) { return base::fields("Range", "min", "max"); }
constexpr auto fields_of(const ColourJitter*) {
  return base::fields("ColourJitter", "brightness", "contrast", "saturation", "hue");
}
constexpr auto fields_of(const PhotometricDistortion*) {
  return base::fields("PhotometricDistortion", "brightness", "contrast", "saturation", "hue",
                      "probability");
}
constexpr auto fields_of(const ChannelPermutation*) { return base::fields("ChannelPermutation"); }
constexpr auto fields_of(const GaussianBlur*) {
  return base::fields("GaussianBlur", "length", "sigma");
}
constexpr auto fields_of(const RandomRotation*) {
  return base::fields("RandomRotation", "degrees", "options", "centre", "expand");
}
constexpr auto fields_of(const RandomAffine*) {
  return base::fields("RandomAffine", "degrees", "translate", "scale", "shear", "options",
                      "centre");
}
constexpr auto fields_of(const RandomPerspective*) {
  return base::fields("RandomPerspective", "distortion", "probability", "options");
}
constexpr auto fields_of(const Cropping*) {
  return base::fields("Cropping", "crop", "size", "interpolation");
}
constexpr auto fields_of(const Pad*) { return base::fields("Pad", "padding", "border"); }
constexpr auto fields_of(const RandomZoomOut*) {
  return base::fields("RandomZoomOut", "factor", "fill", "probability", "mask_fill");
}
constexpr auto fields_of(const RandomIouCrop*) {
  return base::fields("RandomIouCrop", "scale", "ratio", "overlaps", "trials");
}
constexpr auto fields_of(const ScaleJitter*) {
  return base::fields("ScaleJitter", "target", "scale", "interpolation");
}
constexpr auto fields_of(const RandomShortestSize*) {
  return base::fields("RandomShortestSize", "sizes", "longest", "interpolation");
}
constexpr auto fields_of(const RandomResize*) {
  return base::fields("RandomResize", "min", "max", "interpolation");
}
constexpr auto fields_of(const AutoAugment*) {
  return base::fields("AutoAugment", "policy", "options");
}
constexpr auto fields_of(const RandAugment*) {
  return base::fields("RandAugment", "count", "magnitude", "bins", "options");
}
constexpr auto fields_of(const TrivialAugmentWide*) {
  return base::fields("TrivialAugmentWide", "bins", "options");
}
constexpr auto fields_of(const AugMix*) {
  return base::fields("AugMix", "severity", "width", "depth", "alpha", "all", "options");
}
constexpr auto fields_of(const AugmentOp*) {
  return base::fields("AugmentOp", "operation", "probability", "magnitude", "deviation",
                      "magnitude_most", "base", "slope", "either_sign", "whole", "least", "most",
                      "options");
}
constexpr auto fields_of(const ChainMixture*) {
  return base::fields("ChainMixture", "width", "depth", "alpha", "steps");
}
constexpr auto fields_of(const RandomApply*) {
  return base::fields("RandomApply", "probability", "steps");
}
constexpr auto fields_of(const RandomChoice*) {
  return base::fields("RandomChoice", "weights", "steps", "count", "may_repeat");
}
constexpr auto fields_of(const RandomOrder*) { return base::fields("RandomOrder", "steps"); }

constexpr auto fields_of(const Transform*) {
  return base::fields("Transform", "size", "crop", "crop_size", "flip", "vertical_flip", "steps",
                      "erasing", "interpolation", "scaled_decode", "oriented");
}

}  // namespace forebay::image
