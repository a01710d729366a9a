#include "prep/wire/job.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "jpeg/testing/jpeg_samples.h"
#include "prep/testing/random_job.h"
#include "prep/testing/same.h"

namespace forebay::prep {
namespace {

using base::Code;
using nlohmann::json;

bool same(const image::Draw& a, const image::Draw& b) {
  const Same same;
  return same(a.size, b.size) && same(a.cut, b.cut) && a.flip == b.flip &&
         a.vertical_flip == b.vertical_flip && same(a.actions, b.actions) &&
         same(a.erased, b.erased) && a.noise.has_value() == b.noise.has_value();
}

// Both transforms must draw the same for a sample, or give the same error.
bool draw_the_same(const image::Transform& a, const image::Transform& b, uint64_t number) {
  const base::Random random(1, base::Purpose::kAugment, 0, number);
  image::Annotations objects_a{.boxes = {{3, 4, 30, 40}, {20, 20, 44, 50}}, .points = {{5, 5}}};
  image::Annotations objects_b = objects_a;
  const image::Size size{50 + static_cast<uint32_t>(number % 20), 60};
  const auto drawn_a = image::draw(a, size, random, {}, &objects_a);
  const auto drawn_b = image::draw(b, size, random, {}, &objects_b);
  if (!drawn_a || !drawn_b) {
    return !drawn_a && !drawn_b && drawn_a.error().message() == drawn_b.error().message();
  }
  return same(*drawn_a, *drawn_b) && objects_a.boxes == objects_b.boxes &&
         objects_a.points == objects_b.points;
}

TEST(PrepJob, JobsComeBackAndDrawTheSame) {
  size_t drawn = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomSteps random(seed);
    for (size_t kind = 0; kind < RandomSteps::kKinds; ++kind) {
      const PrepJob job = make_job(random, {random.step(kind)});
      const std::string text = encoded(job);
      const PrepJob back = decoded(text);
      ASSERT_EQ(encoded(back), text) << "seed " << seed;
      EXPECT_TRUE(Same()(back.options.transform, job.options.transform)) << "seed " << seed;
      EXPECT_TRUE(Same()(back.options.order.index(), job.options.order.index()));
      for (uint64_t number = 0; number < 4; ++number) {
        ASSERT_TRUE(draw_the_same(job.options.transform, back.options.transform, number))
            << "seed " << seed << ", kind " << kind;
        ++drawn;
      }
    }
  }
  EXPECT_EQ(drawn, 100 * RandomSteps::kKinds * 4);
}

TEST(PrepJob, DecodedOptionsMakeTheSameSamples) {
  const base::ByteVector file =
      jpeg::make_jpeg({.width = 90, .height = 70, .across = 2, .down = 2, .quality = 80}, 1);
  size_t made = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomSteps random(seed);
    const PrepJob job =
        make_job(random, {random.step(seed % RandomSteps::kKinds),
                          image::Cropping{image::WholeImage{image::Size{32, 32}}, {32, 32}}});
    const PrepJob back = decoded(encoded(job));
    std::array<base::ByteVector, 2> outs;
    std::array<Status, 2> statuses;
    for (size_t i = 0; i < 2; ++i) {
      const feed::FeedOptions& options = (i == 0 ? job : back).options;
      image::Preparer preparer(options.transform, options.tensor, options.damaged);
      outs[i].resize(preparer.sample_bytes());
      statuses[i] =
          preparer.prepare(file, base::Random(seed, base::Purpose::kAugment), outs[i].data());
    }
    EXPECT_EQ(statuses[0].message(), statuses[1].message());
    if (!statuses[0].ok()) continue;
    EXPECT_EQ(outs[0], outs[1]) << "seed " << seed;
    ++made;
  }
  EXPECT_GT(made, 80u);
}

// The text is a format between machines, and must not change by accident.
TEST(PrepJob, TheTextIsWhatItWas) {
  PrepJob job{.dataset = kDataset, .host = kHost};
  job.options.transform.steps = {image::RandomApply{0.25, {image::Action(image::Posterize{3})}}};
  job.options.seed = ~uint64_t{0};
  std::string text = encoded(job);
  const json version = json::parse(text)["forebay"];
  const std::string expected =
      R"({"dataset":")" + kDataset + R"(","draws":null,"forebay":)" + version.dump() +
      R"(,"format":3,"host":")" + kHost +
      R"(","options":{"bad_samples_max":100,"damaged":"refuse","drop_last":true,)"
      R"("even_ranks":false,"files":false,"global_batch":256,"group_bytes":64000000,)"
      R"("images":"tensor","lanes":8,"rank":0,"replace_bad":true,"seed":18446744073709551615,)"
      R"("tensor":{"dtype":"float32","layout":"nchw","mean":[0.48500001430511475,)"
      R"(0.4560000002384186,0.4059999883174896],"std":[0.2290000021457672,0.2240000069141388,)"
      R"(0.22499999403953552]},"transform":{"crop":{"RandomResizedCrop":{)"
      R"("ratio_max":1.3333333333333333,"ratio_min":0.75,"scale_max":1.0,"scale_min":0.08}},)"
      R"("crop_size":null,"erasing":{"noise":false,"probability":0.0,"ratio_max":3.3,)"
      R"("ratio_min":0.3,"scale_max":0.33,"scale_min":0.02,"value":[0.0,0.0,0.0]},"flip":0.5,)"
      R"("interpolation":"bilinear","oriented":false,"scaled_decode":false,)"
      R"("size":{"height":224,"width":224},"steps":[{"RandomApply":{"probability":0.25,)"
      R"("steps":[{"Action":{"Posterize":{"bits":3}}}]}}],"vertical_flip":0.0},"world_size":1},)"
      R"("order":"shuffled","selections":[],"targets":null})";
  EXPECT_EQ(text, expected);
  EXPECT_EQ(job_name("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-4
}

TEST(PrepJob, WhatOnlyDecidesHowBatchesAreMadeIsNoPart) {
  PrepJob job{.dataset = kDataset, .host = kHost};
  const std::string text = encoded(job);
  job.options.threads = 7;
  job.options.prefetch = 9;
  job.options.memory_bytes_max = 1;
  job.options.uncached = true;
  job.options.regions = feed::Regions::kNever;
  job.options.next_epoch = false;
  job.options.decode = feed::Decode::kHost;
  EXPECT_EQ(encoded(job), text);
  job.options.seed = 1;
  EXPECT_NE(encoded(job), text);
}

TEST(PrepJob, AListIsNoOrderOfAllEpochs) {
  PrepJob job{.dataset = kDataset, .host = kHost};
  job.options.order = feed::Listed{};
  EXPECT_EQ(base::status_of(encode_job(job)).code(), Code::kUnsupported);
}

TEST(PrepJob, AnotherVersionIsUnsupportedAndNamed) {
  const std::string text = encoded({.dataset = kDataset, .host = kHost});
  json other = json::parse(text);
  const std::string version = other["forebay"];
  other["forebay"] = "77.1";
  other.erase("options");  // another version may write anything else
  const Status status = error_of(other.dump());
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("77.1"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(version), std::string::npos) << status.message();
  other = json::parse(text);
  other["format"] = 1;
  EXPECT_EQ(error_of(other.dump()).code(), Code::kUnsupported);
}

TEST(PrepJob, OptionsAreChecked) {
  json text = json::parse(encoded({.dataset = kDataset, .host = kHost}));
  const auto code_with = [&](const char* pointer, const json& value) {
    json changed = text;
    changed[json::json_pointer(pointer)] = value;
    return error_of(changed.dump()).code();
  };
  EXPECT_EQ(code_with("/options/rank", 1), Code::kInvalid);
  EXPECT_EQ(code_with("/options/global_batch", 0), Code::kInvalid);
  EXPECT_EQ(code_with("/options/transform/flip", 1.5), Code::kInvalid);
  EXPECT_EQ(code_with("/options/transform/size/width", 0), Code::kInvalid);
  EXPECT_EQ(code_with("/dataset", std::string(64, 'A')), Code::kInvalid);
  EXPECT_EQ(code_with("/targets", "x"), Code::kInvalid);
  EXPECT_EQ(code_with("/targets", kDataset), Code::kOk);
  text["options"]["images"] = "whole";
  EXPECT_EQ(code_with("/targets", kDataset), Code::kInvalid);
}

TEST(PrepJob, WeightsAreATable) {
  const std::vector<double> weights = {1, 0, 2};
  const auto made =
      std::make_shared<const feed::SampleWeights>(feed::SampleWeights::make(weights).value());
  PrepJob job{.dataset = kDataset, .host = kHost};
  job.options.order = feed::Weighted{.weights = made, .samples = 7};
  const EncodedJob out = encode_job(job).value();
  ASSERT_EQ(out.tables.size(), 1u);
  EXPECT_EQ(out.tables[0].name, table_of(*made).name);
  const PrepJob back = decoded(out.text);
  EXPECT_EQ(back.weights, out.tables[0].name);
  EXPECT_EQ(std::get<feed::Weighted>(back.options.order).samples, 7u);
  EXPECT_EQ(encoded(back), out.text);
  json text = json::parse(out.text);
  text["draws"] = nullptr;
  EXPECT_EQ(error_of(text.dump()).code(), Code::kInvalid);
  text = json::parse(out.text);
  text["order"] = "shuffled";
  EXPECT_EQ(error_of(text.dump()).code(), Code::kInvalid);
}

TEST(PrepJob, TargetsAreNamedByTheirContent) {
  auto targets = std::make_shared<feed::Targets>();
  targets->first = {0, 1};
  targets->boxes = {{1, 2, 3, 4}};
  targets->points_each = 1;
  targets->points = {{5, 6}};
  targets->outlines = feed::Outlines{{0, 1}, {0, 2}, {0}, {1, 2}};
  targets->sizes = {{7, 8}};
  PrepJob job{.dataset = kDataset, .host = kHost};
  job.options.targets = targets;
  const std::string text = encoded(job);
  const PrepJob back = decoded(text);
  EXPECT_EQ(back.options.targets, nullptr);
  EXPECT_EQ(back.targets, table_of(*targets).name);
  EXPECT_EQ(encoded(back), text);

  std::vector<std::function<void(feed::Targets&)>> changes = {
      [](auto& t) { t.first = {0, 0, 1}; },
      [](auto& t) { t.boxes[0].bottom = 5; },
      [](auto& t) { t.are_fractions = true; },
      [](auto& t) { t.outlines->fractions = {0.5}; },
      [](auto& t) { t.points_each = 2; },
      [](auto& t) { t.points[0].x = 6; },
      [](auto& t) { t.points[0].visibility = 1; },
      [](auto& t) { t.pairs = {{0, 0}}; },
      [](auto& t) { t.drawn_on = image::DrawnOn::kStored; },
      [](auto& t) { t.outlines.reset(); },
      [](auto& t) { t.outlines->first_part = {0, 0, 1}; },
      [](auto& t) { t.outlines->first_number = {0, 1, 2}; },
      [](auto& t) { t.outlines->is_runs = {1}; },
      [](auto& t) { t.outlines->numbers[1] = 3; },
      [](auto& t) { t.sizes[0].width = 8; },
  };
  std::set<std::string> names = {back.targets};
  for (const auto& change : changes) {
    feed::Targets changed = *targets;
    change(changed);
    names.insert(table_of(changed).name);
  }
  EXPECT_EQ(names.size(), changes.size() + 1);
}

}  // namespace
}  // namespace forebay::prep
