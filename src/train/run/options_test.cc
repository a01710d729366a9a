#include "train/run/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/run/stage_options.h"

namespace forebay::train {
namespace {

using base::Code;
using nlohmann::json;
using testing::HasSubstr;

// Returns options that all differ from their defaults.
Options unusual() {
  return {.model = "resnet18",
          .width = 3,
          .precision = "fp32",
          .seed = UINT64_MAX,
          .epochs = 2,
          .batch = 7,
          .lanes = 2,
          .group_bytes = 1000,
          .lr = 0.1 + 0.2,
          .warmup_epochs = 0,
          .momentum = 0.5,
          .nesterov = true,
          .weight_decay = 1e-300,
          .label_smoothing = 0,
          .size = 32,
          .interpolation = "nearest",
          .scaled_decode = true,
          .mean = {0, 0.1, 0.2},
          .std = {1, 2, 3},
          .crop = "resized",
          .crop_padding = 0,
          .crop_scale_min = 0.5,
          .flip = false,
          .erase = 0.25,
          .resize = 40,
          .val_flip = true,
          .val_epochs = 5,
          .target_accuracy = 0.9};
}

TEST(Options, JsonRoundTripIsTheIdentity) {
  for (const Options& options : {Options(), unusual()}) {
    const json object = to_json(options);
    const auto back = options_from_json(json::parse(object.dump()));
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(*back, options);
    EXPECT_EQ(to_json(*back), object);
  }
  const json usual = to_json({});
  const json other = to_json(unusual());
  for (const auto& [name, value] : usual.items()) EXPECT_NE(value, other[name]) << name;
}

TEST(Options, MissingOnesKeepTheirDefaults) {
  Options expected;
  expected.lr = 1;
  expected.epochs = 3;
  EXPECT_EQ(*options_from_json({{"lr", 1}, {"epochs", 3}}), expected);
  EXPECT_EQ(*options_from_json(json::object()), Options());
}

TEST(Options, BadJsonIsRefusedByName) {
  struct Case {
    const char* text;
    const char* part;
  };
  for (const Case& c : {
           Case{"[]", "expected an object"},
           Case{R"({"learning-rate": 1})", "\"learning-rate\" is not known"},
           Case{R"({"dataset": "x"})", "\"dataset\" is not known"},
           Case{R"({"lr": "fast"})", "\"lr\": expected a number, found \"fast\""},
           Case{R"({"epochs": 1.5})", "\"epochs\": expected a whole number"},
           Case{R"({"epochs": -1})", "\"epochs\": expected a whole number"},
           Case{R"({"batch": 4294967296})",
                "\"batch\": expected a whole number from 0 to 4294967295"},
           Case{R"({"width": 9223372036854775808})", "\"width\": expected"},
           Case{R"({"flip": 1})", "\"flip\": expected true or false"},
           Case{R"({"model": null})", "\"model\": expected a text"},
           Case{R"({"mean": [1, 2]})", "\"mean\": expected a list of 3 numbers"},
           Case{R"({"std": [1, 2, "3"]})", "\"std\": expected a list of 3 numbers"},
       }) {
    const auto options = options_from_json(json::parse(c.text));
    ASSERT_FALSE(options) << c.text;
    EXPECT_EQ(options.error().code(), Code::kInvalid);
    EXPECT_THAT(options.error().message(), HasSubstr(c.part));
  }
}

TEST(Options, ValuesWithoutSenseAreRefusedByName) {
  EXPECT_TRUE(check_options({}).ok());
  EXPECT_TRUE(check_options(unusual()).ok());
  struct Case {
    json change;
    const char* part;
  };
  for (const Case& c : {
           Case{{{"lr", 0}}, "--lr: must be above 0"},
           Case{{{"std", {1, 0, 1}}}, "--std: must be above 0"},
           Case{{{"momentum", 1.5}}, "--momentum: must be from 0 to 1"},
           Case{{{"weight-decay", -1}}, "--weight-decay: must be 0 or more"},
           Case{{{"warmup", -1}}, "--warmup: must be 0 or more"},
           Case{{{"erase", 2}}, "--erase"},
           Case{{{"model", "vgg"}}, "--model vgg: use resnet9 or resnet18"},
           Case{{{"precision", "fp8"}}, "--precision fp8"},
           Case{{{"crop", "round"}}, "--crop round"},
           Case{{{"interpolation", "sinc"}}, "--interpolation sinc"},
           Case{{{"epochs", 1'000'001}}, "--epochs"},
           Case{{{"val-epochs", 0}}, "--val-epochs"},
           Case{{{"size", 32}, {"resize", 31}}, "--resize: must be --size or more"},
       }) {
    const auto options = options_from_json(c.change);
    ASSERT_TRUE(options) << c.change << options.error().message();
    const Status status = check_options(*options);
    EXPECT_EQ(status.code(), Code::kInvalid) << c.change;
    EXPECT_THAT(status.message(), HasSubstr(c.part));
  }
  Options options;
  options.mean[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(check_options(options).message(), HasSubstr("not a finite number"));
}

TEST(Options, WhatIsLeftOpenFollowsTheImages) {
  struct Case {
    Options given;
    uint32_t side;
    uint32_t size;
    uint32_t resize;
    const char* crop;
  };
  for (const Case& c : {
           Case{{}, 32, 32, 32, "padded"},
           Case{{}, 64, 64, 64, "padded"},
           Case{{}, 65, 224, 256, "resized"},
           Case{{.size = 128}, 32, 128, 146, "resized"},
           Case{{.size = 64, .crop = "resized"}, 500, 64, 64, "resized"},
           Case{{.crop = "padded", .resize = 300}, 500, 224, 300, "padded"},
       }) {
    const Options options = settled(c.given, c.side);
    EXPECT_EQ(options.size, c.size);
    EXPECT_EQ(options.resize, c.resize);
    EXPECT_EQ(options.crop, c.crop);
    EXPECT_EQ(settled(options, 1), options);
  }
}

// Checkpoints of earlier versions hold this text for the same options. They stay readable only
// while it does not change.
TEST(Options, CheckpointsKeepTheirText) {
  EXPECT_EQ(
      checkpoint_options(settled({}, 16), {.classes = 3, .torch_threads = 1}),
      R"({"batch":256,"classes":3,"crop":"padded","crop-padding":4,"crop-scale-min":0.08,)"
      R"("dataset":"0000000000000000000000000000000000000000000000000000000000000000",)"
      R"("epochs":8,"erase":0.0,"flip":true,"group-bytes":64000000,"init":null,)"
      R"("interpolation":"bilinear","label-smoothing":0.1,"lanes":8,"lr":0.4,)"
      R"("mean":[0.485,0.456,0.406],"model":"resnet9","momentum":0.9,"nesterov":false,)"
      R"("precision":"fp32","scaled-decode":false,"seed":0,"size":16,)"
      R"("std":[0.229,0.224,0.225],"threads":1,"warmup":1.5,"weight-decay":0.0005,"width":16})");
}

}  // namespace
}  // namespace forebay::train
