#include "feed/batch/targets.h"

#include <algorithm>

#include "feed/batch/further_images.h"

namespace forebay::feed {

using base::Code;
using base::fail;

namespace {

// Whether `first` cuts `total` elements into `count` consecutive parts: where each part begins, and
// the end.
bool divides(const std::vector<uint64_t>& first, uint64_t count, uint64_t total) {
  return first.size() == count + 1 && first.front() == 0 && first.back() == total &&
         std::ranges::is_sorted(first);
}

bool fit(const Outlines& outlines, bool are_fractions, uint64_t objects) {
  const uint64_t parts = outlines.is_runs.size();
  if (!divides(outlines.first_part, objects, parts)) return false;
  const uint64_t numbers_in_all = outlines.numbers.size() + outlines.fractions.size();
  if (!divides(outlines.first_number, parts, numbers_in_all)) return false;
  const bool has_runs = std::ranges::any_of(outlines.is_runs, [](uint8_t is) { return is != 0; });
  if (are_fractions && (has_runs || !outlines.numbers.empty())) return false;
  if (!are_fractions && !outlines.fractions.empty()) return false;
  for (uint64_t part = 0; part < parts; ++part) {
    const uint64_t numbers = outlines.first_number[part + 1] - outlines.first_number[part];
    if (outlines.is_runs[part] == 0 && numbers % 2 != 0) return false;
  }
  return true;
}

// Turns fractions of an image of this size into pixels.
void to_pixels(image::Size size, image::Annotations* objects) {
  const auto width = static_cast<float>(size.width);
  const auto height = static_cast<float>(size.height);
  for (image::Bounds& box : objects->boxes) {
    box = {box.left * width, box.top * height, box.right * width, box.bottom * height};
  }
  for (image::Point& point : objects->points) {
    point.x *= width;
    point.y *= height;
  }
}

// The corners from number `begin` to `end`, in an image of this size.
std::vector<image::Corner> corners_of(const Outlines& outlines, uint64_t begin, uint64_t end,
                                      image::Size size) {
  std::vector<image::Corner> out;
  const std::vector<int32_t>& numbers = outlines.numbers;
  const std::vector<double>& fractions = outlines.fractions;
  for (uint64_t at = begin; at < end; at += 2) {
    out.push_back(fractions.empty() ? image::Corner{numbers[at], numbers[at + 1]}
                                    : image::corner_at(fractions[at] * size.width,
                                                       fractions[at + 1] * size.height));
  }
  return out;
}

}  // namespace

Result<store::Location> Targets::map_at(uint64_t sample, const io::ReadOptions& read) const {
  return file_at(*maps, map_of[sample], read);
}

// Chunks with equal ids have equal bytes, wherever they lie; data in place has no ids.
std::optional<store::Location> Targets::map_beside(const store::Dataset& dataset, uint32_t chunk,
                                                   uint64_t sample,
                                                   const io::ReadOptions& read) const {
  if (maps == nullptr) return std::nullopt;
  const base::Sha256& id = dataset.chunk(chunk).id;
  if (id == base::Sha256{} || maps->chunk(maps->chunk_of(map_of[sample])).id != id) {
    return std::nullopt;
  }
  const auto location = map_at(sample, read);  // an error is reported when the map is read
  return location ? std::optional(*location) : std::nullopt;
}

image::Annotations Targets::objects(uint64_t sample, image::Size size) const {
  image::Annotations out;
  if (first.empty()) return out;
  const auto part_of = [&](const auto& all, uint64_t each) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(first[sample] * each);
    return std::vector(begin, begin + static_cast<ptrdiff_t>(count(sample) * each));
  };
  out.boxes = part_of(boxes, 1);
  out.points = part_of(points, points_each);
  out.points_each = points_each;
  out.pairs = pairs;
  if (are_fractions) to_pixels(size, &out);
  return out;
}

Result<image::Orientation> Targets::orientation(uint64_t sample,
                                                const image::Encoded& image) const {
  const image::Size stored = turned(image.size, image.orientation);
  const image::Size own = sizes.empty() ? image::Size{} : sizes[sample];
  const bool is_unknown = own == image::Size{};
  if (drawn_on != image::DrawnOn::kShown && (is_unknown || own == stored)) return image.orientation;
  if (drawn_on != image::DrawnOn::kStored && (is_unknown || own == image.size)) {
    return image::Orientation{};
  }
  std::string_view why = "was it resized after it was annotated?";
  if (own == image.size) {
    why =
        "they were drawn on the image as its orientation tag shows it, so leave out "
        "annotations_as=\"stored\"";
  } else if (own == stored) {
    why = "they were drawn on the image as it is stored, so leave out annotations_as=\"shown\"";
  } else if (own == turned(stored, {.transposed = true})) {
    why =
        "if they were drawn on the image as its orientation tag shows it, give the Loader "
        "orientation=\"apply\"";
  }
  return fail(Code::kInvalid,
              "its annotations are for an image of {} x {} pixels, but it has {} x {}; {}",
              own.width, own.height, stored.width, stored.height, why);
}

Result<image::Annotations> Targets::shown_objects(uint64_t sample,
                                                  const image::Encoded& image) const {
  ASSIGN_OR_RETURN(const image::Orientation own, orientation(sample, image));
  const image::Size size = turned(image.size, own);
  image::Annotations out = objects(sample, size);
  if (own != image::Orientation{}) move(own, size, &out);
  return out;
}

Result<std::vector<std::vector<image::Changes>>> Targets::outlines_of(uint64_t sample,
                                                                      image::Size size) const {
  std::vector<std::vector<image::Changes>> out(count(sample));
  for (uint64_t i = 0; i < out.size(); ++i) {
    const uint64_t object = first[sample] + i;
    for (uint64_t part = outlines->first_part[object]; part < outlines->first_part[object + 1];
         ++part) {
      const uint64_t begin = outlines->first_number[part];
      const uint64_t count = outlines->first_number[part + 1] - begin;
      if (outlines->is_runs[part] != 0) {
        const int32_t* const numbers = outlines->numbers.data() + begin;
        const std::vector<uint32_t> runs(numbers, numbers + count);
        ASSIGN_OR_RETURN(out[i].emplace_back(), image::run_changes(runs, size));
        continue;
      }
      const auto corners = corners_of(*outlines, begin, begin + count, size);
      ASSIGN_OR_RETURN(out[i].emplace_back(), image::polygon_changes(corners, size));
    }
  }
  return out;
}

Status check_targets(const Targets& targets, uint64_t samples) {
  const uint64_t objects = targets.boxes.size();
  const bool has_objects = !targets.first.empty() || objects > 0;
  const auto is_pair = [&](const image::PointPair& pair) {
    return pair[0] < targets.points_each && pair[1] < targets.points_each;
  };
  const bool fits = (!has_objects || divides(targets.first, samples, objects)) &&
                    targets.points.size() == targets.points_each * objects &&
                    std::ranges::all_of(targets.pairs, is_pair) &&
                    (!targets.outlines || fit(*targets.outlines, targets.are_fractions, objects)) &&
                    (targets.sizes.empty() || targets.sizes.size() == samples) &&
                    (targets.maps == nullptr || targets.map_of.size() == samples);
  const auto is_map = [&](uint64_t map) { return map < targets.maps->sample_count(); };
  if (fits && (targets.maps == nullptr || std::ranges::all_of(targets.map_of, is_map))) return {};
  return fail(Code::kInvalid,
              "targets: the tables contradict each other, or do not suit a dataset of {} samples",
              samples);
}

}  // namespace forebay::feed
