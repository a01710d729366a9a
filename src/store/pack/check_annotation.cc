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
  if (segmentation.is_object()) return check_runs(segmentation.value("counts", json()));
  if (!segmentation.is_array()) {
    return fail(Code::kInvalid,
                "segmentation is {}, but must be a list of polygons, or run-lengths",
                shown(segmentation));
  }
  for (const json& polygon : segmentation) {
    if (are_pixels(polygon) && polygon.size() % 2 == 0) continue;
    return fail(Code::kInvalid, "a polygon is {}, but must have two numbers for each corner",
                shown(polygon));
  }
  return {};
}

Status check_object(const json& one) {
  RETURN_IF_ERROR(check_box(one["bbox"]));
  RETURN_IF_ERROR(whole_of("category_id", one.value("category_id", json())));
  RETURN_IF_ERROR(whole_of("iscrowd", one.value("iscrowd", json(0))));
  const json area = one.value("area", json(0));
  if (!is_pixels(area)) {
    return fail(Code::kInvalid, "area is {}, but must be a number", shown(area));
  }
  RETURN_IF_ERROR(check_segmentation(one.value("segmentation", json::array())));
  const json keypoints = one.value("keypoints", json::array());
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

base::Result<int64_t> whole_of(std::string_view what, const json& value) {
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : value.is_number_integer();
  if (fits) return value.get<int64_t>();
  return fail(Code::kInvalid, "{} is {}, but must be a whole number", what, shown(value));
}

Status check_annotation(const json& annotation) {
  Status status;
  if (annotation.contains("bbox")) {
    status = check_object(annotation);
  } else if (!annotation.contains("caption")) {
    status = fail(Code::kInvalid, "it has neither bbox nor caption");
  }
  return status.ok() ? status : status.at("annotation " + shown(annotation.value("id", json())));
}

}  // namespace forebay::store
