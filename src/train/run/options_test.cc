#include "train/run/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_fields.h"
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
          .learners = 3,
          .averaging = "local",
          .averaging_steps = 2,
          .averaging_rate = 0.5,
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

Options read(const json& object) {
  Options options;
  base::FieldReader reader("options");
  reader.read(object, &options);
  EXPECT_TRUE(reader.status().ok()) << reader.status().message();
  return options;
}

TEST(Options, EachIsWrittenByItsName) {
  for (const Options& options : {Options(), unusual()}) {
    const json object = to_json(options);
    EXPECT_EQ(read(json::parse(object.dump())), options);
  }
  const json usual = to_json({});
  const json other = to_json(unusual());
  for (const auto& [name, value] : usual.items()) EXPECT_NE(value, other[name]) << name;
}

TEST(Options, WhatWeightsDependOnIsAllButMeasuring) {
  const json learning = learning_to_json({});
  json expected = to_json({});
  for (const char* name : {"resize", "val-flip", "val-epochs", "target-accuracy"}) {
    EXPECT_EQ(expected.erase(name), 1U) << name;
  }
  EXPECT_EQ(learning, expected);
}

TEST(Options, ValuesWithoutSenseAreRefusedByName) {
  EXPECT_TRUE(check_options({}).ok());
  Options unusual_but_valid = unusual();
  unusual_but_valid.averaging_rate = 0;  // any other value is for "sma" only
  EXPECT_TRUE(check_options(unusual_but_valid).ok());
  struct Case {
    json change;
    const char* part;
  };
  for (const Case& c : {
           Case{{{"lr", 0.0}}, "--lr: must be above 0"},
           Case{{{"std", {1.0, 0.0, 1.0}}}, "--std: must be above 0"},
           Case{{{"momentum", 1.5}}, "--momentum: must be from 0 to 1"},
           Case{{{"weight-decay", -1.0}}, "--weight-decay: must be 0 or more"},
           Case{{{"warmup", -1.0}}, "--warmup: must be 0 or more"},
           Case{{{"erase", 2.0}}, "--erase"},
           Case{{{"model", "vgg"}}, "--model vgg: use resnet9 or resnet18"},
           Case{{{"precision", "fp8"}}, "--precision fp8"},
           Case{{{"crop", "round"}}, "--crop round"},
           Case{{{"interpolation", "sinc"}}, "--interpolation sinc"},
           Case{{{"epochs", 1'000'001}}, "--epochs"},
           Case{{{"val-epochs", 0}}, "--val-epochs"},
           Case{{{"learners", 65}}, "--learners 65: use 1 to 64"},
           Case{{{"averaging", "mean"}}, "--averaging mean: use sma, sgd or local"},
           Case{{{"averaging-rate", 2.0}}, "--averaging-rate 2"},
           Case{{{"learners", 64}, {"batch", 16385}}, "--batch 16385: with --learners 64"},
           Case{{{"size", 32}, {"resize", 31}}, "--resize: must be --size or more"},
       }) {
    json object = to_json({});
    object.update(c.change);
    const Status status = check_options(read(object));
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

// Checkpoints of earlier versions hold this text for the same options. They can be resumed only as
// long as the text does not change.
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

TEST(Options, CheckpointsOfSeveralLearnersNameTheirOptions) {
  const json text = json::parse(checkpoint_options(settled({.learners = 2}, 16), {}));
  EXPECT_EQ(text["learners"], 2);
  EXPECT_EQ(text["averaging"], "sma");
  EXPECT_EQ(text["averaging-steps"], 1);
  EXPECT_EQ(text["averaging-rate"], 0);
}

TEST(Options, StepOfSeveralLearnersTakesABatchOfEach) {
  const Options options = settled({.batch = 16, .learners = 3}, 16);
  EXPECT_EQ(training_feed(options, {}, Precision::kFp32).global_batch, 48U);
  EXPECT_EQ(validation_feed(options, {}, Precision::kFp32).global_batch, 16U);
}

}  // namespace
}  // namespace forebay::train
