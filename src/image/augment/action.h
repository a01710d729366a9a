// What is done to a picture, with nothing left to chance. Steps (steps.h) draw actions; performer.h
// performs them.
#pragma once

#include <string>
#include <variant>

#include "image/augment/warp.h"
#include "image/transform/cut.h"

namespace forebay::image {

// Each of these is one of torchvision v2's functions with the same parameter.
struct Brightness {
  double factor = 1;
};
struct Contrast {
  double factor = 1;
};
struct Saturation {
  double factor = 1;
};
struct Hue {
  double shift = 0;  // in full turns, from -0.5 to 0.5
};
struct Sharpness {
  double factor = 1;
};
struct Posterize {
  uint32_t bits = 8;
};
struct Solarize {
  double threshold = 256;
};
// Adds to all levels below a threshold; no level becomes more than 255 (timm's SolarizeAdd).
struct SolarizeAdd {
  uint32_t added = 0;
  uint32_t threshold = 128;
};
struct Invert {};
struct Autocontrast {};
struct Equalize {};
struct Grey {};
struct PermuteChannels {
  std::array<uint8_t, 3> order = {0, 1, 2};  // which old channel each new one is
};
struct Blur {
  std::array<uint32_t, 2> length = {1, 1};  // number of weights, across and down; odd
  std::array<double, 2> sigma = {1, 1};
};
struct Flip {
  bool across = false;  // left to right
  bool down = false;    // top to bottom
};
struct QuarterTurns {
  uint32_t count = 0;  // counter-clockwise
};
struct AffineWarp {
  Affine map;
  WarpOptions options = {};
  std::optional<WarpWindow> window = {};  // unset: the whole picture
  std::optional<Size> canvas = {};        // the size of the whole result; unset: the picture's
};
struct Perspective {
  Projection map;
  WarpOptions options = {};
  std::optional<WarpWindow> window = {};
};

struct Blend;
using Action = std::variant<Brightness, Contrast, Saturation, Hue, Sharpness, Posterize, Solarize,
                            SolarizeAdd, Invert, Autocontrast, Equalize, Grey, PermuteChannels,
                            Blur, Flip, QuarterTurns, AffineWarp, Perspective, Cut, Blend>;

// The weighted sum of the picture and of the results of chains of actions on it (AugMix).
struct Blend {
  float own = 1;
  struct Chain {
    float weight = 0;
    std::vector<Action> actions;  // no initialiser: Action is incomplete here
  };
  std::vector<Chain> chains;
};

}  // namespace forebay::image
