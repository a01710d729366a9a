#include "image/augment/performer.h"

#include <algorithm>

#include "image/augment/colour.h"
#include "image/augment/filter.h"
#include "image/augment/turn.h"
#include "image/transform/framed.h"

namespace forebay::image {

// Performs actions on one picture. Tone tables that follow each other are combined, and applied
// only when an action needs the pixels.
class Performer::Run {
 public:
  Run(Performer& performer, Picture* picture) : performer_(performer), picture_(picture) {}

  void operator()(const Brightness& action) { add(brightness(action.factor)); }
  void operator()(const Contrast& action) {
    apply_tone();
    add(contrast(action.factor, grey_mean(*picture_)));
  }
  void operator()(const Saturation& action) {
    apply_tone();
    saturate(action.factor, picture_);
  }
  void operator()(const Hue& action) {
    apply_tone();
    shift_hue(action.shift, picture_);
  }
  void operator()(const Sharpness& action) {
    change([&](Picture* to) { sharpen(*picture_, action.factor, to); });
  }
  void operator()(const Posterize& action) { add(posterize(action.bits)); }
  void operator()(const Solarize& action) { add(solarize(action.threshold)); }
  void operator()(const SolarizeAdd& action) { add(solarize_add(action.added, action.threshold)); }
  void operator()(const Invert&) { add(inverted()); }
  void operator()(const Autocontrast&) { add(autocontrast(histogram())); }
  void operator()(const Equalize&) { add(equalize(histogram())); }
  void operator()(const Grey&) {
    apply_tone();
    make_grey(picture_);
  }
  void operator()(const PermuteChannels& action);
  void operator()(const Blur& action) {
    const auto across = blur_weights(action.length[0], action.sigma[0]);
    const auto down = blur_weights(action.length[1], action.sigma[1]);
    change([&](Picture* to) { blur(*picture_, across, down, to); });
  }
  void operator()(const Flip& action);
  void operator()(const QuarterTurns& action) {
    change([&](Picture* to) { turn(*picture_, action.count, to); });
  }
  void operator()(const AffineWarp& action) {
    const auto& [map, options, part, own_canvas] = action;
    const Size picture = part ? part->picture : picture_->size();
    const Size canvas = own_canvas.value_or(picture);
    const WarpWindow window = part.value_or(whole_window(picture, canvas));
    change([&](Picture* to) {
      if (canvas == picture && performer_.shifter_.shift(*picture_, map, options, window, to)) {
        return;
      }
      performer_.warper_.warp(*picture_, map, options, window, canvas, to);
    });
  }
  void operator()(const Perspective& action) {
    const auto& [map, options, part] = action;
    const WarpWindow window = part.value_or(whole_window(picture_->size()));
    change([&](Picture* to) { performer_.warper_.warp(*picture_, map, options, window, to); });
  }
  void operator()(const Cut& action);
  void operator()(const Blend& action);

  // If the first actions put the picture into a frame and resize both, performs these actions and
  // returns their number; otherwise returns 0.
  size_t resize_framed(std::span<const Action> actions);

  void apply_tone() {
    if (tone_) change_tone(*tone_, picture_);
    tone_.reset();
  }

 private:
  void add(const ToneTable& tone) { tone_ = tone_ ? followed_by(*tone_, tone) : tone; }

  // Returns the histogram that the picture will have after the pending table.
  Histogram histogram() const {
    const Histogram out = histogram_of(*picture_);
    return tone_ ? changed(out, *tone_) : out;
  }

  // Replaces the picture by the result of make().
  template <class Make>
  void change(const Make& make) {
    apply_tone();
    make(&performer_.other_);
    std::swap(*picture_, performer_.other_);
  }

  Performer& performer_;
  Picture* const picture_;
  std::optional<ToneTable> tone_;
};

void Performer::Run::operator()(const PermuteChannels& action) {
  change([&](Picture* to) {
    const Size size = picture_->size();
    to->reset(size);
    for (size_t channel = 0; channel < 3; ++channel) {
      const uint8_t* const from = picture_->row(action.order[channel], 0);
      std::copy_n(from, picture_->stride() * size.height, to->row(channel, 0));
    }
  });
}

void Performer::Run::operator()(const Flip& action) {
  change([&](Picture* to) {
    const Size size = picture_->size();
    to->reset(size);
    for (uint32_t y = 0; y < size.height; ++y) {
      to->set_row(action.down ? size.height - 1 - y : y, picture_->rows(y), action.across);
    }
  });
}

void Performer::Run::operator()(const Cut& action) {
  change([&](Picture* to) {
    const Rect& region = action.region;
    PictureRows rows(*picture_, region);
    const Box box{.width = static_cast<double>(region.width),
                  .height = static_cast<double>(region.height)};
    to->reset(action.size());
    performer_.cutter_.cut(rows, box, action,
                           [&](uint32_t y, const PlanarRow& row) { to->set_row(y, row, false); });
  });
}

size_t Performer::Run::resize_framed(std::span<const Action> actions) {
  const auto* const first = std::get_if<Cut>(&actions.front());
  const auto frame = first != nullptr ? framed(*first) : std::nullopt;
  if (!frame) return 0;
  Flip flip;
  size_t count = 1;
  for (; count < actions.size(); ++count) {
    const auto* const next = std::get_if<Flip>(&actions[count]);
    if (next == nullptr) break;
    flip.across ^= next->across;
    flip.down ^= next->down;
  }
  const auto* const resize = count < actions.size() ? std::get_if<Cut>(&actions[count]) : nullptr;
  if (resize == nullptr || !resize->resizes() || resize->outside) return 0;
  if (resize->region != whole(frame->size)) return 0;
  change([&](Picture* to) {
    to->fill(resize->size(), frame->fill);
    PictureRows shown(*picture_, frame->source);
    FramedRows rows(shown, *frame, flip.across, flip.down);
    const std::optional<Rect> part = part_with_picture(rows.frame(), *resize);
    if (!part) return;
    Cut cut = *resize;
    cut.kept = *part;
    const uint32_t left = part->x - resize->kept.x;
    const uint32_t top = part->y - resize->kept.y;
    performer_.cutter_.cut(rows, whole(rows), cut, [&](uint32_t y, const PlanarRow& row) {
      for (size_t channel = 0; channel < 3; ++channel) {
        std::copy_n(row[channel], part->width, to->row(channel, top + y) + left);
      }
    });
  });
  return count + 1;
}

// Each product and sum is rounded to float32 by itself, like torchvision's.
void Performer::Run::operator()(const Blend& action) {
  apply_tone();
  const Size size = picture_->size();
  const size_t count = 3 * picture_->stride() * size.height;
  if (!performer_.chain_) {
    performer_.chain_ = std::make_unique<Chain>();
    performer_.chain_->performer = std::make_unique<Performer>();
  }
  Chain& memory = *performer_.chain_;
  std::vector<float>& sums = performer_.sums_;
  sums.resize(count);
  uint8_t* const own = picture_->row(0, 0);
  for (size_t i = 0; i < count; ++i) sums[i] = static_cast<float>(own[i]) * action.own;
  for (const Blend::Chain& chain : action.chains) {
    memory.picture = *picture_;
    memory.performer->perform(chain.actions, &memory.picture);
    FOREBAY_CHECK(memory.picture.size() == size);
    const uint8_t* const made = memory.picture.row(0, 0);
    for (size_t i = 0; i < count; ++i) sums[i] += static_cast<float>(made[i]) * chain.weight;
  }
  for (size_t i = 0; i < count; ++i) own[i] = static_cast<uint8_t>(std::min(sums[i], 255.0F));
}

void Performer::perform(std::span<const Action> actions, Picture* picture) {
  Run run(*this, picture);
  while (!actions.empty()) {
    size_t done = run.resize_framed(actions);
    if (done == 0) {
      std::visit(run, actions.front());
      done = 1;
    }
    actions = actions.subspan(done);
  }
  run.apply_tone();
}

}  // namespace forebay::image
