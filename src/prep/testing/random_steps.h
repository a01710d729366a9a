// For tests: steps with random numbers that check_steps() and check_job_steps() accept.
#pragma once

#include "base/random.h"
#include "image/augment/steps.h"

namespace forebay::prep {

class RandomSteps {
 public:
  static constexpr size_t kKinds = std::variant_size_v<image::Step>;

  explicit RandomSteps(uint64_t seed) : random_(seed, base::Purpose::kTest) {}

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_.below(bound)); }
  bool flip() { return below(2) == 1; }
  double within(double min, double max) { return min + (max - min) * random_.uniform(); }
  image::Range range(double min, double max) {
    const double first = within(min, max);
    return {first, within(first, max)};
  }
  template <class Enum>
  Enum one_of(uint32_t count) {
    return static_cast<Enum>(below(count));
  }
  image::Interpolation interpolation() { return one_of<image::Interpolation>(4); }
  image::Size size(uint32_t most) { return {1 + below(most), 1 + below(most)}; }

  std::optional<image::Resize> resize() {
    switch (below(3)) {
      case 0:
        return image::ShortSide{40 + below(60), 100 + below(60)};
      case 1:
        return image::Size{40 + below(40), 40 + below(40)};
      default:
        return std::nullopt;
    }
  }
  image::Border border() {
    return {one_of<image::BorderKind>(4),
            {one_of<uint8_t>(256), one_of<uint8_t>(256), one_of<uint8_t>(256)},
            one_of<uint8_t>(256)};
  }
  image::Padding padding() { return {below(9), below(9), below(9), below(9)}; }
  image::Crop crop() {
    switch (below(4)) {
      case 0: {
        const image::Range scale = range(0.1, 1);
        const image::Range ratio = range(0.5, 2);
        return image::RandomResizedCrop{scale.min, scale.max, ratio.min, ratio.max};
      }
      case 1:
        return image::RandomCrop{resize(), padding(), true, border()};
      case 2:
        return image::CentreCrop{resize()};
      default:
        return image::WholeImage{image::Size{32, 32}};
    }
  }
  image::WarpOptions warp() {
    image::WarpOptions out{flip() ? image::Interpolation::kNearest
                                  : image::Interpolation::kBilinear};
    if (flip()) {
      out.fill = {static_cast<float>(within(0, 255)), 0, static_cast<float>(within(0, 255))};
      out.mask_fill = one_of<uint8_t>(256);
    }
    return out;
  }
  image::Centre centre() {
    if (flip()) return std::nullopt;
    return {{within(0, 40), within(0, 40)}};
  }
  std::optional<image::Range> maybe(double min, double max) {
    return flip() ? std::optional(range(min, max)) : std::nullopt;
  }

  image::Action action() {
    switch (below(14)) {
      case 0:
        return image::Brightness{within(0, 2)};
      case 1:
        return image::Contrast{within(0, 2)};
      case 2:
        return image::Saturation{within(0, 2)};
      case 3:
        return image::Hue{within(-0.5, 0.5)};
      case 4:
        return image::Sharpness{within(0, 2)};
      case 5:
        return image::Posterize{below(9)};
      case 6:
        return image::Solarize{within(0, 256)};
      case 7:
        return image::SolarizeAdd{below(200), below(200)};
      case 8:
        return image::Invert{};
      case 9:
        return image::Autocontrast{};
      case 10:
        return image::Equalize{};
      case 11:
        return image::Grey{};
      case 12:
        return image::PermuteChannels{{2, one_of<uint8_t>(3), 0}};
      default:
        return image::Flip{flip(), flip()};
    }
  }

  // A step of the kind with this index in image::Step; it may contain steps of other kinds.
  image::Step step(size_t kind, int depth = 2) {
    switch (kind) {
      case 0:
        return action();
      case 1:
        return image::ColourJitter{maybe(0, 2), maybe(0, 2), maybe(0, 2), maybe(-0.5, 0.5)};
      case 2:
        return image::PhotometricDistortion{range(0, 2), range(0, 2), range(0, 2), range(-0.5, 0.5),
                                            within(0, 1)};
      case 3:
        return image::ChannelPermutation{};
      case 4:
        return image::GaussianBlur{{1 + 2 * below(3), 1 + 2 * below(3)}, range(0.1, 3)};
      case 5:
        return image::RandomRotation{range(-90, 90), warp(), centre(), flip()};
      case 6:
        return affine();
      case 7:
        return image::RandomPerspective{within(0, 1), within(0, 1), warp()};
      case 8:
        return image::Cropping{crop(), {32, 32}, interpolation()};
      case 9:
        return image::Pad{padding(), border()};
      case 10:
        return image::RandomZoomOut{
            range(1, 3), {1, one_of<uint8_t>(256), 3}, within(0, 1), one_of<uint8_t>(256)};
      case 11:
        return image::RandomIouCrop{range(0.3, 1), range(0.5, 2), {within(0, 1), 1}, 1 + below(40)};
      default:
        return kind < 20 ? sized_or_policy(kind) : of_steps(kind, depth);
    }
  }
  std::vector<image::Step> steps(int depth) {
    std::vector<image::Step> out;
    // The last four kinds contain lists of steps; at depth 0 they are left out.
    const auto kinds = static_cast<uint32_t>(depth > 0 ? kKinds : kKinds - 4);
    for (uint32_t count = 1 + below(3); count > 0; --count)
      out.push_back(step(below(kinds), depth));
    return out;
  }

 private:
  image::RandomAffine affine() {
    image::RandomAffine out{.degrees = range(-90, 90)};
    if (flip()) out.translate = {within(0, 0.5), within(0, 0.5)};
    out.scale = maybe(0.5, 2);
    if (flip()) out.shear = {range(-20, 20), range(-20, 20)};
    out.options = warp();
    out.centre = centre();
    return out;
  }
  image::Step sized_or_policy(size_t kind) {
    switch (kind) {
      case 12:
        return image::ScaleJitter{{32, 40}, range(0.5, 2), interpolation()};
      case 13: {
        const auto longest = flip() ? std::optional(60 + below(20)) : std::nullopt;
        return image::RandomShortestSize{
            {20 + below(20), 30 + below(20)}, longest, interpolation()};
      }
      case 14:
        return image::RandomResize{20 + below(9), 30 + below(9), interpolation()};
      case 15:
        return image::AutoAugment{one_of<image::Policy>(3), warp()};
      case 16:
        return image::RandAugment{below(4), below(10), 10 + below(30), warp()};
      case 17:
        return image::TrivialAugmentWide{1 + below(40), warp()};
      case 18:
        return image::AugMix{1 + below(10), 1 + below(3), below(4), within(0.1, 2), flip(), warp()};
      default: {
        image::AugmentOp out{.operation = one_of<image::Operation>(19)};
        out.probability = within(0, 1);
        out.magnitude = within(0, 10);
        if (flip()) out.deviation = std::nullopt;
        out.base = within(0, 1);
        out.slope = within(0, 1);
        out.either_sign = flip();
        out.whole = flip();
        out.least = 0.25;
        out.most = within(0.5, 3);
        out.options = warp();
        return out;
      }
    }
  }
  image::Step of_steps(size_t kind, int depth) {
    switch (kind) {
      case 20: {
        image::Step last = step(4 + below(4));
        auto* const rotation = std::get_if<image::RandomRotation>(&last);
        if (rotation != nullptr) rotation->expand = false;  // a mixture keeps the size
        return image::ChainMixture{
            1 + below(3), below(3), within(0.1, 2), {step(0), step(1), last}};
      }
      case 21:
        return image::RandomApply{within(0, 1), steps(depth - 1)};
      case 22: {
        image::RandomChoice out{{}, steps(depth - 1), 1, flip()};
        for (size_t i = 0; i < out.steps.size(); ++i) out.weights.push_back(within(0.1, 1));
        return out;
      }
      default:
        return image::RandomOrder{steps(depth - 1)};
    }
  }

  base::Random random_;
};

}  // namespace forebay::prep
