#include "store/pack/check_annotation.h"

#include <algorithm>
#include <cmath>

#include "image/transform/outline.h"
#include "store/pack/json_guard.h"

namespace forebay::store {

using base::Code;
using base::fail;
using base::Status;
using nlohmann::json;

namespace {

constexpr double kFar = 1e9;  // pixels; no image is as large

bool is_pixels(const json& value) {
  return value.is_number() && std::abs(value.get<double>()) <= kFar;
}

bool are_pixels(const json& values) {
  return values.is_array() && std::ranges::all_of(values, is_pixels);
}

Status check_box(const json& box) {
  if (!are_pixels(box) || box.size() != 4) {
    return fail(Code::kInvalid, "bbox is {}, but must be 4 numbers", shown(box));
  }
  if (box[2].get<double>() >= 0 && box[3].get<double>() >= 0) return {};
  return fail(Code::kInvalid,
              "bbox is {}, but its width and height must be at least 0 (bbox is left, top, width, "
              "height)",
              shown(box));
}

Status check_runs(const json& counts) {
  if (counts.is_string()) {
    return base::status_of(image::decode_runs(counts.get_ref<const std::string&>()));
  }
  const auto is_run = [](const json& run) {
    if (!run.is_number()) return false;
    const auto pixels = run.get<double>();
    return pixels >= 0 && pixels <= INT32_MAX && pixels == std::floor(pixels);
  };
  if (counts.is_array() && std::ranges::all_of(counts, is_run)) return {};
  return fail(Code::kInvalid, "segmentation.counts is {}, but must be whole numbers, at least 0",
              shown(counts));
}

Status check_segmentation(const json& segmentation) {
  if (segmentation.is_object()) {
    RETURN_IF_ERROR(base::status_of(size_of_runs(segmentation)));
    return check_runs(segmentation.value("counts", json()));
  }
  if (!segmentation.is_array()) {
    return fail(Code::kInvalid,
                "segmentation is {}, but must be a list of polygons, or run-lengths",
                shown(segmentation));
  }
  for (const json& polygon : segmentation) {
    if (are_pixels(polygon) && polygon.size() % 2 == 0) continue;
    return fail(Code::kInvalid,
                "a polygon is {}, but must be a list with two numbers for each corner, and "
                "segmentation a list of such lists: [[x1, y1, x2, y2, x3, y3]]",
                shown(polygon));
  }
  return {};
}

Status check_object(const json& one) {
  RETURN_IF_ERROR(check_box(one["bbox"]));
  RETURN_IF_ERROR(whole_of("category_id", one.value("category_id", json())));
  RETURN_IF_ERROR(whole_of("iscrowd", value_or(one, "iscrowd", 0)));
  const json area = value_or(one, "area", 0);
  if (!is_pixels(area)) {
    return fail(Code::kInvalid, "area is {}, but must be a number", shown(area));
  }
  RETURN_IF_ERROR(check_segmentation(value_or(one, "segmentation", json::array())));
  const json keypoints = value_or(one, "keypoints", json::array());
  if (are_pixels(keypoints) && keypoints.size() % 3 == 0) return {};
  return fail(Code::kInvalid, "keypoints is {}, but must be three numbers for each point",
              shown(keypoints));
}

}  // namespace

std::string shown(const json& value) {
  constexpr size_t kShown = 60;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kShown ? text : text.substr(0, kShown - 3) + "...";
}

json value_or(const json& one, const char* name, json missing) {
  const auto found = one.find(name);
  if (found == one.end() || found->is_null()) return missing;
  return *found;
}

base::Result<std::optional<image::Size>> size_of_runs(const json& segmentation) {
  const auto size = segmentation.is_object() ? segmentation.find("size") : segmentation.end();
  if (size == segmentation.end()) return std::nullopt;
  std::array<int64_t, 2> sides{};  // height, width
  bool fits = size->is_array() && size->size() == 2;
  for (size_t i = 0; fits && i < 2; ++i) {
    const auto side = whole_of("size", (*size)[i]);
    fits = side && *side >= 0 && *side <= INT32_MAX;
    if (fits) sides[i] = *side;
  }
  if (!fits) {
    return fail(Code::kInvalid,
                "segmentation.size is {}, but must be the image's height and width in pixels",
                shown(*size));
  }
  return image::Size{static_cast<uint32_t>(sides[1]), static_cast<uint32_t>(sides[0])};
}

base::Result<int64_t> whole_of(std::string_view what, const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_float()) {
    constexpr double kExact = 9007199254740992;  // 2^53; smaller whole numbers are exact
    const auto number = value.get<double>();
    if (number == std::floor(number) && std::abs(number) < kExact) {
      return static_cast<int64_t>(number);
    }
  }
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : value.is_number_integer();
  if (fits) return value.get<int64_t>();
  return fail(Code::kInvalid, "{} is {}, but must be a whole number", what, shown(value));
}

Status check_annotation(const json& annotation) {
  Status status;
  if (!value_or(annotation, "bbox", {}).is_null()) {
    status = check_object(annotation);
  } else if (value_or(annotation, "caption", {}).is_null()) {
    status = fail(Code::kInvalid, "it has neither bbox nor caption");
  }
  return status.ok() ? status : status.at("annotation " + shown(annotation.value("id", json())));
}

}  // namespace forebay::store
