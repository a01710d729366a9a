#include "image/augment/crop_first.h"

#include <algorithm>

#include "image/augment/annotations.h"
#include "image/augment/geometry.h"

namespace forebay::image {
namespace {

// Whether an action changes each pixel by itself, and moves none.
struct IsPointwise {
  bool operator()(const Brightness&) const { return true; }
  bool operator()(const Saturation&) const { return true; }
  bool operator()(const Hue&) const { return true; }
  bool operator()(const Posterize&) const { return true; }
  bool operator()(const Solarize&) const { return true; }
  bool operator()(const SolarizeAdd&) const { return true; }
  bool operator()(const Invert&) const { return true; }
  bool operator()(const Grey&) const { return true; }
  bool operator()(const PermuteChannels&) const { return true; }
  template <class Other>
  bool operator()(const Other&) const {
    return false;
  }
};

Rect source_of(const AffineWarp& warp, Size picture, const Rect& needed) {
  return part_shown(warp.map, picture, warp.canvas.value_or(picture), needed);
}
Rect source_of(const Perspective& warp, Size picture, const Rect& needed) {
  return part_shown(warp.map, picture, needed);
}

// Limits a warp to the needed part of its result, `made`. Returns the part of the picture that it
// then needs.
template <class Warp>
Rect keep_needed(const Rect& needed, Size picture, Size made, Warp* warp) {
  const Rect source = source_of(*warp, picture, needed);
  if (needed != whole(made) || source != whole(picture)) {
    warp->window = {picture, source, needed};
  }
  return source;
}

Rect mirrored(const Rect& part, const Flip& flip, Size picture) {
  Rect out = part;
  if (flip.across) out.x = picture.width - part.x - part.width;
  if (flip.down) out.y = picture.height - part.y - part.height;
  return out;
}

bool is_nothing(const Cut& cut, Size picture) {
  return !cut.outside && !cut.resizes() && cut.region == whole(picture) &&
         cut.kept == whole(cut.resized);
}

// Joins cuts that follow each other.
void join_neighbours(std::vector<Action>* actions) {
  for (size_t i = 0; i + 1 < actions->size();) {
    const auto* const first = std::get_if<Cut>(&(*actions)[i]);
    const auto* const second = std::get_if<Cut>(&(*actions)[i + 1]);
    const auto both =
        first != nullptr && second != nullptr ? joined(*first, *second) : std::nullopt;
    if (!both) {
      ++i;
      continue;
    }
    (*actions)[i] = *both;
    actions->erase(actions->begin() + static_cast<ptrdiff_t>(i) + 1);
  }
}

}  // namespace

Rect crop_first(Size picture, std::vector<Action>* actions) {
  join_neighbours(actions);
  // Goes from the last action to the first. `needed` is the part of an action's result that the
  // later actions need; each iteration turns it into the part of the action's input.
  std::vector<Size> sizes{picture};
  for (const Action& action : *actions) sizes.push_back(size_after(action, sizes.back()));
  Rect needed = whole(sizes.back());
  for (size_t i = actions->size(); i-- > 0;) {
    const Size size = sizes[i];
    Action& action = (*actions)[i];
    if (auto* const cut = std::get_if<Cut>(&action)) {
      if (needed != whole(cut->size())) {
        // The later actions need only a part of this cut.
        const Cut rest = viewport_cut(cut->size(), cut->size(),
                                      {needed.x, needed.y, {needed.width, needed.height}}, {});
        if (const auto both = joined(*cut, rest)) {
          *cut = *both;
        } else if (!cut->outside) {
          cut->kept.x += needed.x;
          cut->kept.y += needed.y;
          cut->kept.width = needed.width;
          cut->kept.height = needed.height;
        } else {
          actions->insert(actions->begin() + static_cast<ptrdiff_t>(i) + 1, rest);
          needed = whole(size);
          continue;
        }
      }
      needed = cut->region;
      cut->region = whole(Size{needed.width, needed.height});
      if (is_nothing(*cut, {needed.width, needed.height})) {
        actions->erase(actions->begin() + static_cast<ptrdiff_t>(i));
      }
    } else if (const auto* const flip = std::get_if<Flip>(&action)) {
      needed = mirrored(needed, *flip, size);
    } else if (auto* const affine = std::get_if<AffineWarp>(&action)) {
      needed = keep_needed(needed, size, sizes[i + 1], affine);
    } else if (auto* const perspective = std::get_if<Perspective>(&action)) {
      needed = keep_needed(needed, size, sizes[i + 1], perspective);
    } else if (!std::visit(IsPointwise(), action) && needed != whole(sizes[i + 1])) {
      const Size after = sizes[i + 1];
      const Viewport part{needed.x, needed.y, {needed.width, needed.height}};
      actions->insert(actions->begin() + static_cast<ptrdiff_t>(i) + 1,
                      viewport_cut(after, after, part, {}));
      needed = whole(size);
    } else if (!std::visit(IsPointwise(), action)) {
      needed = whole(size);
    }
  }
  return needed;
}

}  // namespace forebay::image
