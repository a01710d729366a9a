#include "store/pack/annotations.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "io/testing/memory.h"

namespace forebay::store {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Result<Annotations> read(const std::string& text) {
  io::MemoryFileSystem fs;
  EXPECT_TRUE(fs.put("a.json", base::as_bytes(text)).ok());
  return read_annotations(fs, "a.json");
}

TEST(Annotations, GivesEachImageWhatConcernsIt) {
  // The lists may come in any order, and other lists are ignored.
  const auto found = read(R"({"annotations": [
      {"id": 1, "image_id": 8, "category_id": 3, "bbox": [1, 2.5, 3e1, 0.1], "mine": {"x": [1]}},
      {"id": 2, "image_id": 7, "caption": "ein Hund: \u00fc"},
      {"id": 3, "image_id": 8, "category_id": 2, "bbox": [0, 0, 1, 1]},
      {"id": 4, "image_id": 99, "category_id": 2, "bbox": [0, 0, 1, 1]}],
    "info": {"year": 2017, "images": [1, 2]}, "licenses": [{"id": 1}],
    "categories": [{"id": 2, "name": "cat"}, {"id": 3, "name": "dog"}, {"id": 4, "name": "cow"}],
    "images": [{"id": 7, "file_name": "x/7.jpg"}, {"id": 8, "file_name": "8.jpg", "width": 5}]})");
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_EQ(found->images.size(), 2u);
  EXPECT_EQ(found->without_image, 1u);
  const auto document = [&](size_t i) { return json::parse(found->document(found->images[i])); };
  EXPECT_EQ(found->images[0].file_name, "8.jpg");
  EXPECT_EQ(document(0), json::parse(R"({"images": [{"id": 8, "file_name": "8.jpg", "width": 5}],
      "annotations": [
        {"id": 1, "image_id": 8, "category_id": 3, "bbox": [1, 2.5, 30.0, 0.1], "mine": {"x": [1]}},
        {"id": 3, "image_id": 8, "category_id": 2, "bbox": [0, 0, 1, 1]}],
      "categories": [{"id": 2, "name": "cat"}, {"id": 3, "name": "dog"}]})"));
  EXPECT_EQ(document(1)["annotations"][0]["caption"], "ein Hund: ü");
  EXPECT_EQ(document(1)["categories"], json::array());
}

TEST(Annotations, NumbersStayTheSame) {
  const auto found = read(R"({"images": [{"id": 1, "file_name": "a"}], "annotations": [
    {"image_id": 1, "category_id": 1, "bbox": [0.1, 1e-7, 123456789.12345678, 4],
     "area": 0.30000000000000004}]})");
  ASSERT_TRUE(found) << found.error().message();
  const json one = json::parse(found->document(found->images[0]))["annotations"][0];
  EXPECT_EQ(one["bbox"], json({0.1, 1e-7, 123456789.12345678, 4}));
  EXPECT_TRUE(one["bbox"][3].is_number_integer());
  EXPECT_EQ(one["area"].get<double>(), 0.1 + 0.2);
}

TEST(Annotations, WhatPycocotoolsTakesIsTaken) {
  const char* const kCases[] = {
      R"("iscrowd": false)",
      R"("iscrowd": null)",
      R"("category_id": 7.0)",
      R"("area": null)",
      R"("segmentation": null)",
      R"("keypoints": null)",
      R"("keypoints": [1, 2, 0, 1, 2, 0])",
      R"("bbox": null, "caption": "a dog")",
      R"("segmentation": {"counts": [0, 6], "size": [2, 3.0]})",
  };
  for (const char* const one : kCases) {
    const auto found = read(std::string(R"({"images": [{"id": 1.0, "file_name": "a", "width": 3,
        "height": 2}], "annotations": [
        {"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "keypoints": [1, 2, 0]},
        {"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], )") +
                            one + "}]}");
    EXPECT_TRUE(found) << one << found.error().message();
  }
}

TEST(Annotations, RunsAreForTheSizeOfTheirImage) {
  const auto error = [](const std::string& sides, const std::string& other) {
    const auto found =
        read(R"({"images": [{"id": 1, "file_name": "a.png")" + sides +
             R"(}], "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1],
        "segmentation": {"counts": [0, 6], "size": [2, 3]}})" +
             other + "]}");
    return found ? "no error" : found.error().message();
  };
  EXPECT_EQ(error("", ""), "no error");
  EXPECT_EQ(error(R"(, "width": 3, "height": 2)", ""), "no error");
  EXPECT_THAT(error(R"(, "width": 2, "height": 3)", ""),
              HasSubstr("image 1 (a.png): it has 2 x 3 pixels, but its run-lengths are for 3 x 2"));
  EXPECT_THAT(error("", R"(, {"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1],
                            "segmentation": {"counts": [0, 6], "size": [3, 2]}})"),
              HasSubstr("are for an image of 2 x 3 pixels, but others of image 1 for 3 x 2"));
}

TEST(Annotations, WhatIsNoCocoFileIsNamed) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "not the JSON expected"},
      {"{", "not the JSON expected"},
      {R"({"images": []} {})", "not the JSON expected"},
      {"[]", "no list \"images\""},
      {R"([{"images": []}])", "no list \"images\""},
      {R"({"images": {"id": 1}})", "no id or no file_name"},
      {R"({"images": [{"id": 1}]})", "image 0 has no id or no file_name"},
      {R"({"images": [7]})", "image 0 has no id or no file_name"},
      {R"({"images": [{"id": "1", "file_name": "x"}]})", "id is \"1\""},
      {R"({"images": [{"id": 1, "file_name": "./"}]})", "file_name is \"./\""},
      {R"({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]})",
       "image 1 comes more than once"},
      {R"({"images": [], "annotations": [{}]})", "annotation 0 has no image_id"},
      {R"({"images": [], "annotations": null})", "must be a list"},
      {R"({"images": [], "annotations": {}})", "must be a list"},
  };
  for (const auto& [text, message] : kCases) {
    const auto found = read(text);
    ASSERT_FALSE(found) << text;
    EXPECT_THAT(found.error().message(), HasSubstr(message)) << text;
    EXPECT_THAT(found.error().message(), HasSubstr("a.json: ")) << text;
  }
}

TEST(Annotations, AnnotationsThatMakeNoSenseAreNamed) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("id": 4)", "annotation 4: it has neither bbox nor caption"},
      {R"("bbox": [1, 2, 3])", "bbox is [1,2,3], but must be 4 numbers"},
      {R"("bbox": [1, 2, -3, 4])", "width and height must be at least 0"},
      {R"("bbox": [1, 2, true, 4])", "bbox is"},
      {R"("bbox": [1, 2, 1e30, 4])", "bbox is"},
      {R"("image_id": [1])", "image_id is [1]"},
      {R"("category_id": "cat")", "category_id is \"cat\", but must be a whole number"},
      {R"("category_id": 18446744073709551615)", "category_id is"},
      {R"("iscrowd": 0.5)", "iscrowd is 0.5"},
      {R"("category_id": null)", "category_id is null"},
      {R"("area": "x")", "area is \"x\""},
      {R"("segmentation": [[1, 2, 3]])", "a polygon is [1,2,3]"},
      {R"("segmentation": [[1, 2, null, 4]])", "a polygon is"},
      {R"("segmentation": [1, 2, 3, 4, 5, 6])", "a list of such lists: [[x1, y1, x2, y2,"},
      {R"("segmentation": 7)", "segmentation is 7"},
      {R"("segmentation": {"counts": "\u007f"})", "cannot be read at character 1"},
      {R"("segmentation": {"counts": [1, -1]})", "must be whole numbers"},
      {R"("segmentation": {})", "must be whole numbers"},
      {R"("keypoints": [1, 2])", "keypoints is [1,2]"},
      {R"("segmentation": {"counts": [4], "size": 2})", "segmentation.size is 2"},
      {R"("segmentation": {"counts": [4], "size": [2, -2]})", "segmentation.size is [2,-2]"},
  };
  const std::string good = R"("image_id": 1, "category_id": 1)";
  for (const auto& [change, message] : kCases) {
    const std::string text =
        R"({"images": [], "annotations": [{"bbox": [0, 0, 1, 1], "keypoints": [1, 2, 0], )" + good +
        "}, {" + (std::string(change).find("\"id\": 4") == 0 ? "" : R"("bbox": [0, 0, 1, 1], )") +
        good + ", " + change + "}]}";
    const auto found = read(text);
    ASSERT_FALSE(found) << text;
    EXPECT_THAT(found.error().message(), HasSubstr(message)) << text;
  }
}

TEST(Annotations, ListsInListsHaveALimit) {
  const auto nested = [](int depth) {
    const auto count = static_cast<size_t>(depth);
    return R"({"images": [{"id": 1, "file_name": "a", "x": )" + std::string(count, '[') +
           std::string(count, ']') + "}]}";
  };
  // The entry is nested in the file's object and in the list of images, which count too.
  EXPECT_TRUE(read(nested(base::kAnnotationDepthMax - 2)));
  for (const int depth : {base::kAnnotationDepthMax - 1, 1'000'000}) {
    const auto found = read(nested(depth));
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), base::Code::kTooBig);
  }
}

}  // namespace
}  // namespace forebay::store
