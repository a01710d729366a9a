#include "image/augment/policies.h"

#include <cmath>

#include "image/augment/geometry.h"
#include "image/transform/distributions.h"

namespace forebay::image {
namespace {

enum class Kind : uint8_t {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColour,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutocontrast,
  kEqualize,
  kInvert,
};

// The ranges of the parameters of a policy's operations.
struct Space {
  double shear;
  double translate;
  bool translate_in_sides;  // as a share of the side, else in pixels
  double degrees;
  double tone;
  double bits_most;   // bits that posterizing keeps at the smallest magnitude
  double bits_least;  // and at the largest magnitude
};
constexpr Space kUsual{.shear = 0.3,
                       .translate = 150.0 / 331.0,
                       .translate_in_sides = true,
                       .degrees = 30,
                       .tone = 0.9,
                       .bits_most = 8,
                       .bits_least = 4};
constexpr Space kWide{.shear = 0.99,
                      .translate = 32,
                      .translate_in_sides = false,
                      .degrees = 135,
                      .tone = 0.99,
                      .bits_most = 8,
                      .bits_least = 2};
constexpr Space kMixed{.shear = 0.3,
                       .translate = 1.0 / 3,
                       .translate_in_sides = true,
                       .degrees = 30,
                       .tone = 0.9,
                       .bits_most = 4,
                       .bits_least = 0};

// An operation of AutoAugment with its probability and its magnitude out of ten.
struct Chance {
  Kind operation;
  double probability;
  uint32_t magnitude;
};
using Pair = std::array<Chance, 2>;

constexpr std::array<Pair, 25> kImageNetPairs = {{
    {{{Kind::kPosterize, 0.4, 8}, {Kind::kRotate, 0.6, 9}}},
    {{{Kind::kSolarize, 0.6, 5}, {Kind::kAutocontrast, 0.6, 0}}},
    {{{Kind::kEqualize, 0.8, 0}, {Kind::kEqualize, 0.6, 0}}},
    {{{Kind::kPosterize, 0.6, 7}, {Kind::kPosterize, 0.6, 6}}},
    {{{Kind::kEqualize, 0.4, 0}, {Kind::kSolarize, 0.2, 4}}},
    {{{Kind::kEqualize, 0.4, 0}, {Kind::kRotate, 0.8, 8}}},
    {{{Kind::kSolarize, 0.6, 3}, {Kind::kEqualize, 0.6, 0}}},
    {{{Kind::kPosterize, 0.8, 5}, {Kind::kEqualize, 1, 0}}},
    {{{Kind::kRotate, 0.2, 3}, {Kind::kSolarize, 0.6, 8}}},
    {{{Kind::kEqualize, 0.6, 0}, {Kind::kPosterize, 0.4, 6}}},
    {{{Kind::kRotate, 0.8, 8}, {Kind::kColour, 0.4, 0}}},
    {{{Kind::kRotate, 0.4, 9}, {Kind::kEqualize, 0.6, 0}}},
    {{{Kind::kEqualize, 0, 0}, {Kind::kEqualize, 0.8, 0}}},
    {{{Kind::kInvert, 0.6, 0}, {Kind::kEqualize, 1, 0}}},
    {{{Kind::kColour, 0.6, 4}, {Kind::kContrast, 1, 8}}},
    {{{Kind::kRotate, 0.8, 8}, {Kind::kColour, 1, 2}}},
    {{{Kind::kColour, 0.8, 8}, {Kind::kSolarize, 0.8, 7}}},
    {{{Kind::kSharpness, 0.4, 7}, {Kind::kInvert, 0.6, 0}}},
    {{{Kind::kShearX, 0.6, 5}, {Kind::kEqualize, 1, 0}}},
    {{{Kind::kColour, 0.4, 0}, {Kind::kEqualize, 0.6, 0}}},
    {{{Kind::kEqualize, 0.4, 0}, {Kind::kSolarize, 0.2, 4}}},
    {{{Kind::kSolarize, 0.6, 5}, {Kind::kAutocontrast, 0.6, 0}}},
    {{{Kind::kInvert, 0.6, 0}, {Kind::kEqualize, 1, 0}}},
    {{{Kind::kColour, 0.6, 4}, {Kind::kContrast, 1, 8}}},
    {{{Kind::kEqualize, 0.8, 0}, {Kind::kEqualize, 0.6, 0}}},
}};
constexpr std::array<Pair, 25> kCifar10Pairs = {{
    {{{Kind::kInvert, 0.1, 0}, {Kind::kContrast, 0.2, 6}}},
    {{{Kind::kRotate, 0.7, 2}, {Kind::kTranslateX, 0.3, 9}}},
    {{{Kind::kSharpness, 0.8, 1}, {Kind::kSharpness, 0.9, 3}}},
    {{{Kind::kShearY, 0.5, 8}, {Kind::kTranslateY, 0.7, 9}}},
    {{{Kind::kAutocontrast, 0.5, 0}, {Kind::kEqualize, 0.9, 0}}},
    {{{Kind::kShearY, 0.2, 7}, {Kind::kPosterize, 0.3, 7}}},
    {{{Kind::kColour, 0.4, 3}, {Kind::kBrightness, 0.6, 7}}},
    {{{Kind::kSharpness, 0.3, 9}, {Kind::kBrightness, 0.7, 9}}},
    {{{Kind::kEqualize, 0.6, 0}, {Kind::kEqualize, 0.5, 0}}},
    {{{Kind::kContrast, 0.6, 7}, {Kind::kSharpness, 0.6, 5}}},
    {{{Kind::kColour, 0.7, 7}, {Kind::kTranslateX, 0.5, 8}}},
    {{{Kind::kEqualize, 0.3, 0}, {Kind::kAutocontrast, 0.4, 0}}},
    {{{Kind::kTranslateY, 0.4, 3}, {Kind::kSharpness, 0.2, 6}}},
    {{{Kind::kBrightness, 0.9, 6}, {Kind::kColour, 0.2, 8}}},
    {{{Kind::kSolarize, 0.5, 2}, {Kind::kInvert, 0, 0}}},
    {{{Kind::kEqualize, 0.2, 0}, {Kind::kAutocontrast, 0.6, 0}}},
    {{{Kind::kEqualize, 0.2, 0}, {Kind::kEqualize, 0.6, 0}}},
    {{{Kind::kColour, 0.9, 9}, {Kind::kEqualize, 0.6, 0}}},
    {{{Kind::kAutocontrast, 0.8, 0}, {Kind::kSolarize, 0.2, 8}}},
    {{{Kind::kBrightness, 0.1, 3}, {Kind::kColour, 0.7, 0}}},
    {{{Kind::kSolarize, 0.4, 5}, {Kind::kAutocontrast, 0.9, 0}}},
    {{{Kind::kTranslateY, 0.9, 9}, {Kind::kTranslateY, 0.7, 9}}},
    {{{Kind::kAutocontrast, 0.9, 0}, {Kind::kSolarize, 0.8, 3}}},
    {{{Kind::kEqualize, 0.8, 0}, {Kind::kInvert, 0.1, 0}}},
    {{{Kind::kTranslateY, 0.7, 9}, {Kind::kAutocontrast, 0.9, 0}}},
}};
constexpr std::array<Pair, 25> kSvhnPairs = {{
    {{{Kind::kShearX, 0.9, 4}, {Kind::kInvert, 0.2, 0}}},
    {{{Kind::kShearY, 0.9, 8}, {Kind::kInvert, 0.7, 0}}},
    {{{Kind::kEqualize, 0.6, 0}, {Kind::kSolarize, 0.6, 6}}},
    {{{Kind::kInvert, 0.9, 0}, {Kind::kEqualize, 0.6, 0}}},
    {{{Kind::kEqualize, 0.6, 0}, {Kind::kRotate, 0.9, 3}}},
    {{{Kind::kShearX, 0.9, 4}, {Kind::kAutocontrast, 0.8, 0}}},
    {{{Kind::kShearY, 0.9, 8}, {Kind::kInvert, 0.4, 0}}},
    {{{Kind::kShearY, 0.9, 5}, {Kind::kSolarize, 0.2, 6}}},
    {{{Kind::kInvert, 0.9, 0}, {Kind::kAutocontrast, 0.8, 0}}},
    {{{Kind::kEqualize, 0.6, 0}, {Kind::kRotate, 0.9, 3}}},
    {{{Kind::kShearX, 0.9, 4}, {Kind::kSolarize, 0.3, 3}}},
    {{{Kind::kShearY, 0.8, 8}, {Kind::kInvert, 0.7, 0}}},
    {{{Kind::kEqualize, 0.9, 0}, {Kind::kTranslateY, 0.6, 6}}},
    {{{Kind::kInvert, 0.9, 0}, {Kind::kEqualize, 0.6, 0}}},
    {{{Kind::kContrast, 0.3, 3}, {Kind::kRotate, 0.8, 4}}},
    {{{Kind::kInvert, 0.8, 0}, {Kind::kTranslateY, 0, 2}}},
    {{{Kind::kShearY, 0.7, 6}, {Kind::kSolarize, 0.4, 8}}},
    {{{Kind::kInvert, 0.6, 0}, {Kind::kRotate, 0.8, 4}}},
    {{{Kind::kShearY, 0.3, 7}, {Kind::kTranslateX, 0.9, 3}}},
    {{{Kind::kShearX, 0.1, 6}, {Kind::kInvert, 0.6, 0}}},
    {{{Kind::kSolarize, 0.7, 2}, {Kind::kTranslateY, 0.6, 7}}},
    {{{Kind::kShearY, 0.8, 4}, {Kind::kInvert, 0.8, 0}}},
    {{{Kind::kShearX, 0.7, 9}, {Kind::kTranslateY, 0.8, 3}}},
    {{{Kind::kShearY, 0.8, 5}, {Kind::kAutocontrast, 0.7, 0}}},
    {{{Kind::kShearX, 0.7, 2}, {Kind::kInvert, 0.1, 0}}},
}};

const std::array<Pair, 25>& pairs_of(Policy policy) {
  switch (policy) {
    case Policy::kImageNet:
      return kImageNetPairs;
    case Policy::kCifar10:
      return kCifar10Pairs;
    case Policy::kSvhn:
      break;
  }
  return kSvhnPairs;
}

// One of `bins` evenly spaced magnitudes.
struct Magnitude {
  uint32_t bin;
  uint32_t bins;

  // Computes in float32, from the nearer end, like torch.linspace().
  double of(double first, double last) const {
    if (bins < 2) return first;
    const auto begin = static_cast<float>(first);
    const auto end = static_cast<float>(last);
    const float step = (end - begin) / static_cast<float>(bins - 1);
    if (bin < bins / 2) return begin + step * static_cast<float>(bin);
    return end - step * static_cast<float>(bins - 1 - bin);
  }
};

// The parameters that all operations of a draw share.
struct Drawing {
  const Space& space;
  Size size;
  const WarpOptions& options;
  base::Random& random;
  std::vector<Action>* to;
};

double with_sign(double value, base::Random& random) {
  return random.uniform() < 0.5 ? -value : value;
}

void add_affine(const AffineParts& parts, const Drawing& drawing) {
  drawing.to->push_back(AffineWarp{affine_map(parts), drawing.options});
}

void add_shear(std::array<double, 2> shear, const Drawing& drawing) {
  // The top left corner stays where it is.
  const std::array<double, 2> corner{drawing.size.width * -0.5, drawing.size.height * -0.5};
  add_affine({.shear = shear, .centre = corner}, drawing);
}

double translation(uint32_t side, const Magnitude& magnitude, const Drawing& drawing) {
  const double most = drawing.space.translate * (drawing.space.translate_in_sides ? side : 1);
  return std::trunc(with_sign(magnitude.of(0, most), drawing.random));
}

void add(Kind operation, const Magnitude& magnitude, const Drawing& drawing) {
  const Space& space = drawing.space;
  base::Random& random = drawing.random;
  const auto factor = [&] { return 1 + with_sign(magnitude.of(0, space.tone), random); };
  switch (operation) {
    case Kind::kIdentity:
      return;
    case Kind::kShearX:
      return add_shear({with_sign(magnitude.of(0, space.shear), random), 0}, drawing);
    case Kind::kShearY:
      return add_shear({0, with_sign(magnitude.of(0, space.shear), random)}, drawing);
    case Kind::kTranslateX:
      return add_affine({.translate = {translation(drawing.size.width, magnitude, drawing), 0}},
                        drawing);
    case Kind::kTranslateY:
      return add_affine({.translate = {0, translation(drawing.size.height, magnitude, drawing)}},
                        drawing);
    case Kind::kRotate:
      return add_rotation(with_sign(magnitude.of(0, space.degrees), random), {}, drawing.size,
                          drawing.options, drawing.to);
    case Kind::kBrightness:
      return drawing.to->push_back(Brightness{factor()});
    case Kind::kColour:
      return drawing.to->push_back(Saturation{factor()});
    case Kind::kContrast:
      return drawing.to->push_back(Contrast{factor()});
    case Kind::kSharpness:
      return drawing.to->push_back(Sharpness{factor()});
    case Kind::kPosterize:
      return drawing.to->push_back(Posterize{
          static_cast<uint32_t>(std::nearbyint(magnitude.of(space.bits_most, space.bits_least)))});
    case Kind::kSolarize:
      return drawing.to->push_back(Solarize{255 * magnitude.of(1, 0)});
    case Kind::kAutocontrast:
      return drawing.to->push_back(Autocontrast{});
    case Kind::kEqualize:
      return drawing.to->push_back(Equalize{});
    case Kind::kInvert:
      return drawing.to->push_back(Invert{});
  }
}

// The operations from kIdentity to kEqualize.
constexpr uint64_t kOperations = static_cast<uint64_t>(Kind::kEqualize) + 1;

Kind draw_operation(base::Random& random) { return static_cast<Kind>(random.below(kOperations)); }

bool is_colour(Kind operation) {
  return operation >= Kind::kBrightness && operation <= Kind::kSharpness;
}

Kind draw_mixed(bool all, base::Random& random) {
  while (true) {
    const Kind operation = draw_operation(random);
    if (operation != Kind::kIdentity && (all || !is_colour(operation))) return operation;
  }
}

}  // namespace

void draw_policy(const AutoAugment& policy, Size size, base::Random& random,
                 std::vector<Action>* to) {
  const Drawing drawing{kUsual, size, policy.options, random, to};
  const auto& pairs = pairs_of(policy.policy);
  for (const Chance& chance : pairs[random.below(pairs.size())]) {
    if (random.uniform() >= chance.probability) continue;
    add(chance.operation, {chance.magnitude, 10}, drawing);
  }
}

void draw_policy(const RandAugment& policy, Size size, base::Random& random,
                 std::vector<Action>* to) {
  const Drawing drawing{kUsual, size, policy.options, random, to};
  for (uint32_t i = 0; i < policy.count; ++i) {
    add(draw_operation(random), {policy.magnitude, policy.bins}, drawing);
  }
}

void draw_policy(const TrivialAugmentWide& policy, Size size, base::Random& random,
                 std::vector<Action>* to) {
  const Kind operation = draw_operation(random);
  const auto bin = static_cast<uint32_t>(random.below(policy.bins));
  add(operation, {bin, policy.bins}, {kWide, size, policy.options, random, to});
}

void draw_policy(const AugMix& policy, Size size, base::Random& random, std::vector<Action>* to) {
  std::array<double, 2> shares{};
  draw_dirichlet(policy.alpha, random, shares);
  std::vector<double> weights(policy.width);
  draw_dirichlet(policy.alpha, random, weights);
  Blend blend;
  blend.own = static_cast<float>(shares[0]);
  for (const double weight : weights) {
    Blend::Chain chain;
    chain.weight = static_cast<float>(weight) * static_cast<float>(shares[1]);
    const uint64_t depth = policy.depth > 0 ? policy.depth : 1 + random.below(3);
    for (uint64_t i = 0; i < depth; ++i) {
      const Kind operation = draw_mixed(policy.all, random);
      const auto bin = static_cast<uint32_t>(random.below(policy.severity));
      add(operation, {bin, 10}, {kMixed, size, policy.options, random, &chain.actions});
    }
    blend.chains.push_back(std::move(chain));
  }
  to->push_back(std::move(blend));
}

}  // namespace forebay::image
