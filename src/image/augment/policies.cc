#include "image/augment/policies.h"

#include <cmath>

#include "image/augment/geometry.h"
#include "image/transform/distributions.h"

namespace forebay::image {
namespace {

enum class Operation : uint8_t {
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

// How far the operations of a policy go at their largest magnitude.
struct Space {
  double shear;
  double translate;
  bool translate_in_sides;  // else in pixels
  double degrees;
  double tone;
  double bits_most;  // that posterizing keeps at the smallest magnitude
  double bits_least;
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
  Operation operation;
  double probability;
  uint32_t magnitude;
};
using Pair = std::array<Chance, 2>;

constexpr std::array<Pair, 25> kImageNetPairs = {{
    {{{Operation::kPosterize, 0.4, 8}, {Operation::kRotate, 0.6, 9}}},
    {{{Operation::kSolarize, 0.6, 5}, {Operation::kAutocontrast, 0.6, 0}}},
    {{{Operation::kEqualize, 0.8, 0}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kPosterize, 0.6, 7}, {Operation::kPosterize, 0.6, 6}}},
    {{{Operation::kEqualize, 0.4, 0}, {Operation::kSolarize, 0.2, 4}}},
    {{{Operation::kEqualize, 0.4, 0}, {Operation::kRotate, 0.8, 8}}},
    {{{Operation::kSolarize, 0.6, 3}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kPosterize, 0.8, 5}, {Operation::kEqualize, 1, 0}}},
    {{{Operation::kRotate, 0.2, 3}, {Operation::kSolarize, 0.6, 8}}},
    {{{Operation::kEqualize, 0.6, 0}, {Operation::kPosterize, 0.4, 6}}},
    {{{Operation::kRotate, 0.8, 8}, {Operation::kColour, 0.4, 0}}},
    {{{Operation::kRotate, 0.4, 9}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kEqualize, 0, 0}, {Operation::kEqualize, 0.8, 0}}},
    {{{Operation::kInvert, 0.6, 0}, {Operation::kEqualize, 1, 0}}},
    {{{Operation::kColour, 0.6, 4}, {Operation::kContrast, 1, 8}}},
    {{{Operation::kRotate, 0.8, 8}, {Operation::kColour, 1, 2}}},
    {{{Operation::kColour, 0.8, 8}, {Operation::kSolarize, 0.8, 7}}},
    {{{Operation::kSharpness, 0.4, 7}, {Operation::kInvert, 0.6, 0}}},
    {{{Operation::kShearX, 0.6, 5}, {Operation::kEqualize, 1, 0}}},
    {{{Operation::kColour, 0.4, 0}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kEqualize, 0.4, 0}, {Operation::kSolarize, 0.2, 4}}},
    {{{Operation::kSolarize, 0.6, 5}, {Operation::kAutocontrast, 0.6, 0}}},
    {{{Operation::kInvert, 0.6, 0}, {Operation::kEqualize, 1, 0}}},
    {{{Operation::kColour, 0.6, 4}, {Operation::kContrast, 1, 8}}},
    {{{Operation::kEqualize, 0.8, 0}, {Operation::kEqualize, 0.6, 0}}},
}};
constexpr std::array<Pair, 25> kCifar10Pairs = {{
    {{{Operation::kInvert, 0.1, 0}, {Operation::kContrast, 0.2, 6}}},
    {{{Operation::kRotate, 0.7, 2}, {Operation::kTranslateX, 0.3, 9}}},
    {{{Operation::kSharpness, 0.8, 1}, {Operation::kSharpness, 0.9, 3}}},
    {{{Operation::kShearY, 0.5, 8}, {Operation::kTranslateY, 0.7, 9}}},
    {{{Operation::kAutocontrast, 0.5, 0}, {Operation::kEqualize, 0.9, 0}}},
    {{{Operation::kShearY, 0.2, 7}, {Operation::kPosterize, 0.3, 7}}},
    {{{Operation::kColour, 0.4, 3}, {Operation::kBrightness, 0.6, 7}}},
    {{{Operation::kSharpness, 0.3, 9}, {Operation::kBrightness, 0.7, 9}}},
    {{{Operation::kEqualize, 0.6, 0}, {Operation::kEqualize, 0.5, 0}}},
    {{{Operation::kContrast, 0.6, 7}, {Operation::kSharpness, 0.6, 5}}},
    {{{Operation::kColour, 0.7, 7}, {Operation::kTranslateX, 0.5, 8}}},
    {{{Operation::kEqualize, 0.3, 0}, {Operation::kAutocontrast, 0.4, 0}}},
    {{{Operation::kTranslateY, 0.4, 3}, {Operation::kSharpness, 0.2, 6}}},
    {{{Operation::kBrightness, 0.9, 6}, {Operation::kColour, 0.2, 8}}},
    {{{Operation::kSolarize, 0.5, 2}, {Operation::kInvert, 0, 0}}},
    {{{Operation::kEqualize, 0.2, 0}, {Operation::kAutocontrast, 0.6, 0}}},
    {{{Operation::kEqualize, 0.2, 0}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kColour, 0.9, 9}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kAutocontrast, 0.8, 0}, {Operation::kSolarize, 0.2, 8}}},
    {{{Operation::kBrightness, 0.1, 3}, {Operation::kColour, 0.7, 0}}},
    {{{Operation::kSolarize, 0.4, 5}, {Operation::kAutocontrast, 0.9, 0}}},
    {{{Operation::kTranslateY, 0.9, 9}, {Operation::kTranslateY, 0.7, 9}}},
    {{{Operation::kAutocontrast, 0.9, 0}, {Operation::kSolarize, 0.8, 3}}},
    {{{Operation::kEqualize, 0.8, 0}, {Operation::kInvert, 0.1, 0}}},
    {{{Operation::kTranslateY, 0.7, 9}, {Operation::kAutocontrast, 0.9, 0}}},
}};
constexpr std::array<Pair, 25> kSvhnPairs = {{
    {{{Operation::kShearX, 0.9, 4}, {Operation::kInvert, 0.2, 0}}},
    {{{Operation::kShearY, 0.9, 8}, {Operation::kInvert, 0.7, 0}}},
    {{{Operation::kEqualize, 0.6, 0}, {Operation::kSolarize, 0.6, 6}}},
    {{{Operation::kInvert, 0.9, 0}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kEqualize, 0.6, 0}, {Operation::kRotate, 0.9, 3}}},
    {{{Operation::kShearX, 0.9, 4}, {Operation::kAutocontrast, 0.8, 0}}},
    {{{Operation::kShearY, 0.9, 8}, {Operation::kInvert, 0.4, 0}}},
    {{{Operation::kShearY, 0.9, 5}, {Operation::kSolarize, 0.2, 6}}},
    {{{Operation::kInvert, 0.9, 0}, {Operation::kAutocontrast, 0.8, 0}}},
    {{{Operation::kEqualize, 0.6, 0}, {Operation::kRotate, 0.9, 3}}},
    {{{Operation::kShearX, 0.9, 4}, {Operation::kSolarize, 0.3, 3}}},
    {{{Operation::kShearY, 0.8, 8}, {Operation::kInvert, 0.7, 0}}},
    {{{Operation::kEqualize, 0.9, 0}, {Operation::kTranslateY, 0.6, 6}}},
    {{{Operation::kInvert, 0.9, 0}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kContrast, 0.3, 3}, {Operation::kRotate, 0.8, 4}}},
    {{{Operation::kInvert, 0.8, 0}, {Operation::kTranslateY, 0, 2}}},
    {{{Operation::kShearY, 0.7, 6}, {Operation::kSolarize, 0.4, 8}}},
    {{{Operation::kInvert, 0.6, 0}, {Operation::kRotate, 0.8, 4}}},
    {{{Operation::kShearY, 0.3, 7}, {Operation::kTranslateX, 0.9, 3}}},
    {{{Operation::kShearX, 0.1, 6}, {Operation::kInvert, 0.6, 0}}},
    {{{Operation::kSolarize, 0.7, 2}, {Operation::kTranslateY, 0.6, 7}}},
    {{{Operation::kShearY, 0.8, 4}, {Operation::kInvert, 0.8, 0}}},
    {{{Operation::kShearX, 0.7, 9}, {Operation::kTranslateY, 0.8, 3}}},
    {{{Operation::kShearY, 0.8, 5}, {Operation::kAutocontrast, 0.7, 0}}},
    {{{Operation::kShearX, 0.7, 2}, {Operation::kInvert, 0.1, 0}}},
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

// Which of `bins` magnitudes, which are evenly spaced.
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

// What is the same for all operations of a draw.
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

void add(Operation operation, const Magnitude& magnitude, const Drawing& drawing) {
  const Space& space = drawing.space;
  base::Random& random = drawing.random;
  const auto factor = [&] { return 1 + with_sign(magnitude.of(0, space.tone), random); };
  switch (operation) {
    case Operation::kIdentity:
      return;
    case Operation::kShearX:
      return add_shear({with_sign(magnitude.of(0, space.shear), random), 0}, drawing);
    case Operation::kShearY:
      return add_shear({0, with_sign(magnitude.of(0, space.shear), random)}, drawing);
    case Operation::kTranslateX:
      return add_affine({.translate = {translation(drawing.size.width, magnitude, drawing), 0}},
                        drawing);
    case Operation::kTranslateY:
      return add_affine({.translate = {0, translation(drawing.size.height, magnitude, drawing)}},
                        drawing);
    case Operation::kRotate:
      return add_rotation(with_sign(magnitude.of(0, space.degrees), random), {}, drawing.size,
                          drawing.options, drawing.to);
    case Operation::kBrightness:
      return drawing.to->push_back(Brightness{factor()});
    case Operation::kColour:
      return drawing.to->push_back(Saturation{factor()});
    case Operation::kContrast:
      return drawing.to->push_back(Contrast{factor()});
    case Operation::kSharpness:
      return drawing.to->push_back(Sharpness{factor()});
    case Operation::kPosterize:
      return drawing.to->push_back(Posterize{
          static_cast<uint32_t>(std::nearbyint(magnitude.of(space.bits_most, space.bits_least)))});
    case Operation::kSolarize:
      return drawing.to->push_back(Solarize{255 * magnitude.of(1, 0)});
    case Operation::kAutocontrast:
      return drawing.to->push_back(Autocontrast{});
    case Operation::kEqualize:
      return drawing.to->push_back(Equalize{});
    case Operation::kInvert:
      return drawing.to->push_back(Invert{});
  }
}

// From the identity to equalizing.
constexpr uint64_t kOperations = static_cast<uint64_t>(Operation::kEqualize) + 1;

Operation draw_operation(base::Random& random) {
  return static_cast<Operation>(random.below(kOperations));
}

bool is_colour(Operation operation) {
  return operation >= Operation::kBrightness && operation <= Operation::kSharpness;
}

Operation draw_mixed(bool all, base::Random& random) {
  while (true) {
    const Operation operation = draw_operation(random);
    if (operation != Operation::kIdentity && (all || !is_colour(operation))) return operation;
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
  const Operation operation = draw_operation(random);
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
      const Operation operation = draw_mixed(policy.all, random);
      const auto bin = static_cast<uint32_t>(random.below(policy.severity));
      add(operation, {bin, 10}, {kMixed, size, policy.options, random, &chain.actions});
    }
    blend.chains.push_back(std::move(chain));
  }
  to->push_back(std::move(blend));
}

}  // namespace forebay::image
