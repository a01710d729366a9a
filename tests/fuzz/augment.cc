// deps: forebay_image
// Draws and performs steps with any parameters on small pictures with boxes and points. What
// check_steps() lets through must neither crash nor read outside of the picture.
#include <cstdlib>
#include <cstring>

#include "image/augment/performer.h"
#include "image/augment/steps.h"

using namespace forebay;
using namespace forebay::image;

namespace {

// Takes numbers from the bytes; zeros after their end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <class T>
  T take() {
    T out{};
    const size_t count = std::min(sizeof out, size_);
    std::memcpy(&out, data_, count);
    data_ += count;
    size_ -= count;
    return out;
  }
  uint32_t below(uint32_t bound) { return take<uint16_t>() % bound; }
  Range range() {
    const auto first = double{take<float>()};
    return {first, double{take<float>()}};
  }
  WarpOptions warp() {
    WarpOptions out{.interpolation = static_cast<Interpolation>(below(3))};
    if (below(2) == 1) out.fill = {take<float>(), take<float>(), take<float>()};
    return out;
  }
  Size size() { return {below(90), below(90)}; }
  Centre centre() {
    if (below(2) == 0) return {};
    return {{double{take<float>()}, double{take<float>()}}};
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

Crop make_crop(Input* in) {
  switch (in->below(4)) {
    case 0:
      return RandomResizedCrop{double{in->take<float>()}, double{in->take<float>()},
                               double{in->take<float>()}, double{in->take<float>()}};
    case 1:
      return RandomCrop{.padding = {in->below(9), in->below(9), in->below(9), in->below(9)},
                        .pad_if_needed = in->below(2) == 1,
                        .border = {.kind = static_cast<BorderKind>(in->below(4))}};
    case 2:
      return CentreCrop{ShortSide{in->below(90)}};
    default:
      return WholeImage{in->size()};
  }
}

Step make_resizing(Input* in) {
  const auto interpolation = static_cast<Interpolation>(in->below(3));
  switch (in->below(3)) {
    case 0:
      return ScaleJitter{in->size(), in->range(), interpolation};
    case 1:
      return RandomShortestSize{{in->below(90), in->below(90)}, in->below(90), interpolation};
    default:
      return RandomResize{in->below(90), in->below(90), interpolation};
  }
}

std::vector<Step> make_steps(Input* in, int depth);

Step make_step(Input* in, int depth) {
  switch (in->below(depth > 0 ? 22 : 19)) {
    case 0:
      return ColourJitter{in->range(), in->range(), in->range(), in->range()};
    case 1:
      return PhotometricDistortion{in->range(), in->range(), in->range(), in->range(),
                                   double{in->take<float>()}};
    case 2:
      return GaussianBlur{{in->below(64), in->below(64)}, in->range()};
    case 3:
      return RandomRotation{in->range(), in->warp(), in->centre()};
    case 4:
      return RandomAffine{.degrees = in->range(),
                          .translate = {{double{in->take<float>()}, double{in->take<float>()}}},
                          .scale = in->range(),
                          .shear = {{in->range(), in->range()}},
                          .options = in->warp(),
                          .centre = in->centre()};
    case 5:
      return RandomPerspective{double{in->take<float>()}, double{in->take<float>()}, in->warp()};
    case 6:
      return AutoAugment{static_cast<Policy>(in->below(3)), in->warp()};
    case 7:
      return RandAugment{in->below(4), in->below(40), in->below(40), in->warp()};
    case 8:
      return TrivialAugmentWide{in->below(40), in->warp()};
    case 9:
      return AugMix{in->below(12),     in->below(4), in->below(4), double{in->take<float>()},
                    in->below(2) == 1, in->warp()};
    case 10:
      return Action(Posterize{in->below(10)});
    case 11:
      return Action(Solarize{double{in->take<float>()}});
    case 12:
      return Action(Sharpness{double{in->take<float>()}});
    case 13:
      return Action(Equalize{});
    case 14: {
      const Padding padding{in->below(60), in->below(60), in->below(60), in->below(60)};
      return Pad{padding, {.kind = static_cast<BorderKind>(in->below(4))}};
    }
    case 15:
      return RandomZoomOut{in->range()};
    case 16:
      return RandomIouCrop{in->range(), in->range(), {double{in->take<float>()}, 1}, in->below(50)};
    case 17:
      return make_resizing(in);
    case 18:
      return Cropping{make_crop(in), in->size(), static_cast<Interpolation>(in->below(3))};
    case 19:
      return RandomApply{double{in->take<float>()}, make_steps(in, depth - 1)};
    case 20: {
      const double first{in->take<float>()};
      return RandomChoice{{first, double{in->take<float>()}}, make_steps(in, depth - 1)};
    }
    default:
      return RandomOrder{make_steps(in, depth - 1)};
  }
}

std::vector<Step> make_steps(Input* in, int depth) {
  std::vector<Step> out;
  for (uint32_t count = in->below(4); count > 0; --count) out.push_back(make_step(in, depth));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  const Size picture_size{1 + in.below(40), 1 + in.below(40)};
  const std::vector<Step> steps = make_steps(&in, 2);
  if (!check_steps(steps, picture_size).ok()) return 0;
  Picture picture;
  picture.reset(picture_size);
  for (uint32_t y = 0; y < picture_size.height; ++y) {
    for (size_t channel = 0; channel < 3; ++channel) {
      for (uint32_t x = 0; x < picture_size.width; ++x) {
        picture.row(channel, y)[x] = in.take<uint8_t>();
      }
    }
  }
  base::Random random(in.take<uint64_t>(), base::Purpose::kTest);
  Annotations objects;
  for (uint32_t count = in.below(4); count > 0; --count) {
    objects.boxes.push_back({in.take<float>(), in.take<float>(), in.take<float>(), 30});
    objects.points.push_back({in.take<float>(), in.take<float>()});
  }
  const auto actions = draw_actions(steps, picture_size, random, &objects);
  if (!actions) return 0;
  Size after = picture_size;
  for (const Action& action : *actions) {
    after = size_after(action, after);
    if (uint64_t{after.width} * after.height > 1'000'000) return 0;  // it would only be slow
  }
  Performer().perform(*actions, &picture);
  if (picture.size() != after) std::abort();
  return 0;
}
