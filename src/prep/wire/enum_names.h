// The names of enumerators in a job's text. No switch has a default, so that the compiler demands a
// name for each enumerator.
#pragma once

#include "feed/batch/options.h"

namespace forebay::feed {

// Returns null for a value that is not an enumerator.
constexpr const char* name_of(Images value) {
  switch (value) {
    using enum Images;
    case kNone:
      return "none";
    case kTensor:
      return "tensor";
    case kOwnSize:
      return "own_size";
    case kWhole:
      return "whole";
  }
  return nullptr;
}

}  // namespace forebay::feed

namespace forebay::jpeg {

constexpr const char* name_of(Damaged value) {
  switch (value) {
    using enum Damaged;
    case kRefuse:
      return "refuse";
    case kDecode:
      return "decode";
  }
  return nullptr;
}

}  // namespace forebay::jpeg

namespace forebay::image {

constexpr const char* name_of(DType value) {
  switch (value) {
    using enum DType;
    case kUint8:
      return "uint8";
    case kFloat32:
      return "float32";
    case kBfloat16:
      return "bfloat16";
    case kFloat16:
      return "float16";
  }
  return nullptr;
}
constexpr const char* name_of(Layout value) {
  switch (value) {
    using enum Layout;
    case kNchw:
      return "nchw";
    case kNhwc:
      return "nhwc";
  }
  return nullptr;
}
constexpr const char* name_of(Interpolation value) {
  switch (value) {
    using enum Interpolation;
    case kBilinear:
      return "bilinear";
    case kBicubic:
      return "bicubic";
    case kNearest:
      return "nearest";
    case kNearestExact:
      return "nearest_exact";
  }
  return nullptr;
}
constexpr const char* name_of(BorderKind value) {
  switch (value) {
    using enum BorderKind;
    case kConstant:
      return "constant";
    case kEdge:
      return "edge";
    case kReflect:
      return "reflect";
    case kSymmetric:
      return "symmetric";
  }
  return nullptr;
}
constexpr const char* name_of(Policy value) {
  switch (value) {
    using enum Policy;
    case kImageNet:
      return "image_net";
    case kCifar10:
      return "cifar10";
    case kSvhn:
      return "svhn";
  }
  return nullptr;
}
constexpr const char* name_of(Operation value) {
  switch (value) {
    using enum Operation;
    case kAutocontrast:
      return "autocontrast";
    case kEqualize:
      return "equalize";
    case kInvert:
      return "invert";
    case kRotate:
      return "rotate";
    case kPosterize:
      return "posterize";
    case kSolarize:
      return "solarize";
    case kSolarizeAdd:
      return "solarize_add";
    case kColour:
      return "colour";
    case kContrast:
      return "contrast";
    case kBrightness:
      return "brightness";
    case kSharpness:
      return "sharpness";
    case kShearX:
      return "shear_x";
    case kShearY:
      return "shear_y";
    case kTranslateX:
      return "translate_x";
    case kTranslateY:
      return "translate_y";
    case kTranslateXShare:
      return "translate_x_share";
    case kTranslateYShare:
      return "translate_y_share";
    case kBlur:
      return "blur";
    case kBlurUpTo:
      return "blur_up_to";
  }
  return nullptr;
}

}  // namespace forebay::image
