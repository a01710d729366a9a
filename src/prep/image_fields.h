// The fields of all structs that say how a sample is made from its image, in the order of their
// declarations.
#pragma once

#include "image/prepare.h"
#include "prep/fields.h"

namespace forebay::prep {

template <>
inline constexpr auto kFields<image::Size> = fields("Size", "width", "height");
template <>
inline constexpr auto kFields<image::Rect> = fields("Rect", "x", "y", "width", "height");

// image/transform/
template <>
inline constexpr auto kFields<image::Border> = fields("Border", "kind", "fill");
template <>
inline constexpr auto kFields<image::Viewport> = fields("Viewport", "x", "y", "size");
template <>
inline constexpr auto kFields<image::RandomResizedCrop> =
    fields("RandomResizedCrop", "scale_min", "scale_max", "ratio_min", "ratio_max");
template <>
inline constexpr auto kFields<image::ShortSide> = fields("ShortSide", "pixels");
template <>
inline constexpr auto kFields<image::Padding> = fields("Padding", "left", "top", "right", "bottom");
template <>
inline constexpr auto kFields<image::RandomCrop> =
    fields("RandomCrop", "resize", "padding", "pad_if_needed", "border");
template <>
inline constexpr auto kFields<image::CentreCrop> = fields("CentreCrop", "resize");
template <>
inline constexpr auto kFields<image::WholeImage> = fields("WholeImage", "resize");
template <>
inline constexpr auto kFields<image::RandomErasing> =
    fields("RandomErasing", "probability", "scale_min", "scale_max", "ratio_min", "ratio_max",
           "value", "noise");
template <>
inline constexpr auto kFields<image::Cut::Outside> =
    fields("Outside", "image", "viewport", "border");
template <>
inline constexpr auto kFields<image::Cut> =
    fields("Cut", "region", "resized", "kept", "outside", "interpolation");
template <>
inline constexpr auto kFields<image::TensorOptions> =
    fields("TensorOptions", "dtype", "layout", "mean", "std");

// image/augment/action.h
template <>
inline constexpr auto kFields<image::Affine> = fields("Affine", "m");
template <>
inline constexpr auto kFields<image::Projection> = fields("Projection", "m");
template <>
inline constexpr auto kFields<image::WarpOptions> = fields("WarpOptions", "interpolation", "fill");
template <>
inline constexpr auto kFields<image::WarpWindow> =
    fields("WarpWindow", "picture", "source", "result");
template <>
inline constexpr auto kFields<image::Brightness> = fields("Brightness", "factor");
template <>
inline constexpr auto kFields<image::Contrast> = fields("Contrast", "factor");
template <>
inline constexpr auto kFields<image::Saturation> = fields("Saturation", "factor");
template <>
inline constexpr auto kFields<image::Hue> = fields("Hue", "shift");
template <>
inline constexpr auto kFields<image::Sharpness> = fields("Sharpness", "factor");
template <>
inline constexpr auto kFields<image::Posterize> = fields("Posterize", "bits");
template <>
inline constexpr auto kFields<image::Solarize> = fields("Solarize", "threshold");
template <>
inline constexpr auto kFields<image::SolarizeAdd> = fields("SolarizeAdd", "added", "threshold");
template <>
inline constexpr auto kFields<image::Invert> = fields("Invert");
template <>
inline constexpr auto kFields<image::Autocontrast> = fields("Autocontrast");
template <>
inline constexpr auto kFields<image::Equalize> = fields("Equalize");
template <>
inline constexpr auto kFields<image::Grey> = fields("Grey");
template <>
inline constexpr auto kFields<image::PermuteChannels> = fields("PermuteChannels", "order");
template <>
inline constexpr auto kFields<image::Blur> = fields("Blur", "length", "sigma");
template <>
inline constexpr auto kFields<image::Flip> = fields("Flip", "across", "down");
template <>
inline constexpr auto kFields<image::QuarterTurns> = fields("QuarterTurns", "count");
template <>
inline constexpr auto kFields<image::AffineWarp> = fields("AffineWarp", "map", "options", "window");
template <>
inline constexpr auto kFields<image::Perspective> =
    fields("Perspective", "map", "options", "window");
template <>
inline constexpr auto kFields<image::Blend::Chain> = fields("Chain", "weight", "actions");
template <>
inline constexpr auto kFields<image::Blend> = fields("Blend", "own", "chains");
template <>
inline constexpr auto kFields<image::Action> = fields("Action");

// image/augment/steps.h
template <>
inline constexpr auto kFields<image::Range> = fields("Range", "min", "max");
template <>
inline constexpr auto kFields<image::ColourJitter> =
    fields("ColourJitter", "brightness", "contrast", "saturation", "hue");
template <>
inline constexpr auto kFields<image::PhotometricDistortion> =
    fields("PhotometricDistortion", "brightness", "contrast", "saturation", "hue", "probability");
template <>
inline constexpr auto kFields<image::ChannelPermutation> = fields("ChannelPermutation");
template <>
inline constexpr auto kFields<image::GaussianBlur> = fields("GaussianBlur", "length", "sigma");
template <>
inline constexpr auto kFields<image::RandomRotation> =
    fields("RandomRotation", "degrees", "options", "centre");
template <>
inline constexpr auto kFields<image::RandomAffine> =
    fields("RandomAffine", "degrees", "translate", "scale", "shear", "options", "centre");
template <>
inline constexpr auto kFields<image::RandomPerspective> =
    fields("RandomPerspective", "distortion", "probability", "options");
template <>
inline constexpr auto kFields<image::Cropping> =
    fields("Cropping", "crop", "size", "interpolation");
template <>
inline constexpr auto kFields<image::Pad> = fields("Pad", "padding", "border");
template <>
inline constexpr auto kFields<image::RandomZoomOut> =
    fields("RandomZoomOut", "factor", "fill", "probability");
template <>
inline constexpr auto kFields<image::RandomIouCrop> =
    fields("RandomIouCrop", "scale", "ratio", "overlaps", "trials");
template <>
inline constexpr auto kFields<image::ScaleJitter> =
    fields("ScaleJitter", "target", "scale", "interpolation");
template <>
inline constexpr auto kFields<image::RandomShortestSize> =
    fields("RandomShortestSize", "sizes", "longest", "interpolation");
template <>
inline constexpr auto kFields<image::RandomResize> =
    fields("RandomResize", "min", "max", "interpolation");
template <>
inline constexpr auto kFields<image::AutoAugment> = fields("AutoAugment", "policy", "options");
template <>
inline constexpr auto kFields<image::RandAugment> =
    fields("RandAugment", "count", "magnitude", "bins", "options");
template <>
inline constexpr auto kFields<image::TrivialAugmentWide> =
    fields("TrivialAugmentWide", "bins", "options");
template <>
inline constexpr auto kFields<image::AugMix> =
    fields("AugMix", "severity", "width", "depth", "alpha", "all", "options");
template <>
inline constexpr auto kFields<image::AugmentOp> =
    fields("AugmentOp", "operation", "probability", "magnitude", "deviation", "magnitude_most",
           "base", "slope", "either_sign", "whole", "least", "most", "options");
template <>
inline constexpr auto kFields<image::ChainMixture> =
    fields("ChainMixture", "width", "depth", "alpha", "steps");
template <>
inline constexpr auto kFields<image::RandomApply> = fields("RandomApply", "probability", "steps");
template <>
inline constexpr auto kFields<image::RandomChoice> =
    fields("RandomChoice", "weights", "steps", "count", "may_repeat");
template <>
inline constexpr auto kFields<image::RandomOrder> = fields("RandomOrder", "steps");

template <>
inline constexpr auto kFields<image::Transform> =
    fields("Transform", "size", "crop", "crop_size", "flip", "vertical_flip", "steps", "erasing",
           "interpolation", "scaled_decode", "oriented");

}  // namespace forebay::prep
