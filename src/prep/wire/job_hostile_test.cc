// Texts of jobs that Forebay did not write, and jobs that could crash or occupy a prep server.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "prep/testing/random_job.h"
#include "prep/wire/job.h"

namespace forebay::prep {
namespace {

using base::Code;
using nlohmann::json;

// Calls change(parent, value) for each value inside `at`, at any depth, to be changed in place.
void each_place(json& root, json& at,
                const std::function<void(json& parent, json& value)>& change) {
  if (!at.is_structured()) return;
  for (auto& value : at) {
    change(at, value);
    each_place(root, value, change);
  }
}

TEST(HostileJob, EveryChangeOfAMemberIsNoticed) {
  json text = json::parse(encoded(make_full_job(3)));
  size_t changes = 0;
  const auto expect_refused = [&](const std::string& name) {
    const Status status = error_of(text.dump());
    const bool is_refused =
        status.code() == Code::kInvalid ||
        (status.code() == Code::kUnsupported && (name == "forebay" || name == "format"));
    EXPECT_TRUE(is_refused) << name << ": " << status.message() << "\n" << text.dump();
    ++changes;
    return status.message();
  };
  std::function<void(json&)> change_in = [&](json& at) {
    if (at.is_object()) {
      at["unknown"] = 1;
      const std::string message = expect_refused("unknown");
      const bool is_named = message.find("unknown") != std::string::npos ||
                            message.find("one member") != std::string::npos;  // of a variant
      EXPECT_TRUE(is_named) << message;
      at.erase("unknown");
      const json before = at;
      for (const auto& [name, value] : before.items()) {
        at.erase(name);
        expect_refused(name);
        at[name + "x"] = value;
        expect_refused(name);
        at = before;
      }
    }
    if (!at.is_structured()) return;
    for (json& value : at) change_in(value);
  };
  change_in(text);
  EXPECT_GT(changes, 500u);
}

TEST(HostileJob, EveryOtherTypeIsNoticedOrIsAnotherJob) {
  json text = json::parse(encoded(make_full_job(4)));
  const std::vector<json> others = {nullptr,
                                    true,
                                    false,
                                    0,
                                    1,
                                    -1,
                                    1.5,
                                    -1e300,
                                    "x",
                                    json::array(),
                                    json::object(),
                                    18446744073709551615U,
                                    json::array({1, 2, 3})};
  size_t refused = 0;
  size_t accepted = 0;
  each_place(text, text, [&](json&, json& value) {
    const json before = value;
    for (const json& other : others) {
      value = other;
      const std::string changed = text.dump();
      const auto job = decode_job(changed);
      if (job) {
        const bool is_optional = before.is_null() || other.is_null();
        const bool is_integer = before.is_number_integer() && other.is_number_integer();
        EXPECT_TRUE(is_optional || is_integer || before.type() == other.type()) << changed;
        EXPECT_EQ(encoded(*job), changed);
        ++accepted;
      } else {
        ++refused;
      }
    }
    value = before;
  });
  EXPECT_GT(refused, 10 * accepted);
  EXPECT_GT(accepted, 100u);
}

TEST(HostileJob, DamagedTextsAreErrorsOrOtherJobs) {
  const std::string text = encoded(make_full_job(5));
  base::Random random(5, base::Purpose::kTest);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (uint64_t count = 1 + random.below(3); count > 0; --count) {
      const size_t at = random.below(damaged.size());
      switch (random.below(4)) {
        case 0:
          damaged[at] = static_cast<char>(random.next_u32());
          break;
        case 1:
          damaged.erase(at, 1 + random.below(20));
          break;
        case 2:
          damaged.insert(at, 1, "0123456789-.eE{}[]\",: "[random.below(22)]);
          break;
        default:
          damaged.insert(at, text.substr(random.below(text.size()), random.below(40)));
      }
      if (damaged.empty()) damaged = " ";
    }
    const auto job = decode_job(damaged);
    if (job) {
      EXPECT_EQ(encoded(*job), damaged);
    }
  }
  const std::string small = encoded({.dataset = kDataset, .host = kHost});
  for (size_t bytes = 0; bytes < small.size(); ++bytes) {
    EXPECT_FALSE(decode_job(std::string_view(small).substr(0, bytes)));
  }
  for (const char* const other : {"", "{", "[]", "null", "3", "{}", "\"\"", "\xff", "{\"a\":1}"}) {
    EXPECT_EQ(error_of(other).code(), Code::kInvalid) << other;
  }
}

TEST(HostileJob, OtherSpellingsOfAJobAreRefused) {
  const std::string text = encoded({.dataset = kDataset, .host = kHost});
  EXPECT_EQ(error_of(text + " ").code(), Code::kInvalid);
  EXPECT_EQ(error_of(json::parse(text).dump(1)).code(), Code::kInvalid);
  std::string twice = text;  // has the same member twice
  twice.insert(1, R"("targets":null,)");
  EXPECT_EQ(error_of(twice).code(), Code::kInvalid);
  std::string longer = text;
  const size_t number = longer.find("0.08");
  longer.insert(number + 4, "0");
  EXPECT_NE(error_of(longer).message().find("byte"), std::string::npos);
}

std::vector<image::Step> nested(int depth) {
  std::vector<image::Step> steps = {image::ChannelPermutation{}};
  for (; depth > 1; --depth) steps = {image::RandomOrder{std::move(steps)}};
  return steps;
}

TEST(HostileJob, StepsHaveLimits) {
  PrepJob job{.dataset = kDataset, .host = kHost};
  std::vector<image::Step>& steps = job.options.transform.steps;
  steps = nested(base::kJobStepDepthMax);
  std::string text = encoded(job);
  EXPECT_TRUE(decode_job(text));
  // One more list around the innermost list.
  const std::string inner = R"([{"ChannelPermutation":{}}])";
  text.replace(text.find(inner), inner.size(), R"([{"RandomOrder":{"steps":)" + inner + "}}]");
  EXPECT_NE(error_of(text).message().find("list of steps"), std::string::npos);
  steps = nested(base::kJobStepDepthMax + 1);
  EXPECT_EQ(base::status_of(encode_job(job)).code(), Code::kInvalid);

  steps.assign(base::kJobStepsMax, image::ChannelPermutation{});
  EXPECT_TRUE(decode_job(encoded(job)));
  steps.emplace_back(image::ChannelPermutation{});
  EXPECT_EQ(base::status_of(encode_job(job)).code(), Code::kInvalid);

  steps.assign(base::kJobStepsMax, image::RandomAffine{});
  EXPECT_NE(base::status_of(encode_job(job)).message().find("bytes"), std::string::npos);
  const std::string open(base::kJobBytesMax, '[');
  EXPECT_EQ(error_of(open).code(), Code::kInvalid);
  EXPECT_EQ(error_of(open + "[").code(), Code::kInvalid);
}

TEST(HostileJob, StepsDoNotDrawForever) {
  PrepJob job{.dataset = kDataset, .host = kHost};
  const auto choice = [](std::vector<image::Step> steps) {
    return image::RandomChoice{{1}, std::move(steps), 1000, true};
  };
  job.options.transform.steps = {choice({choice({image::Action(image::Grey{})})})};
  EXPECT_TRUE(decode_job(encoded(job)));
  job.options.transform.steps.emplace_back(image::Action(image::Grey{}));
  EXPECT_EQ(base::status_of(encode_job(job)).code(), Code::kInvalid);
  std::vector<image::Step> deep = {image::Action(image::Grey{})};
  for (int i = 0; i < 15; ++i) deep = {image::ChainMixture{1, 1000, 1, std::move(deep)}};
  job.options.transform.steps = deep;
  EXPECT_EQ(base::status_of(encode_job(job)).code(), Code::kInvalid);
}

TEST(HostileJob, ActionsForOnePictureAreNoSteps) {
  const std::vector<image::Action> actions = {
      image::Blur{},         image::QuarterTurns{1},
      image::AffineWarp{},   image::Perspective{},
      image::Cut{},          image::Blend{},
      image::Hue{0.6},       image::PermuteChannels{{0, 1, 3}},
      image::Brightness{-1}, image::SolarizeAdd{256, 1}};
  for (const image::Action& action : actions) {
    PrepJob job{.dataset = kDataset, .host = kHost};
    job.options.transform.steps = {image::RandomApply{0.5, {action}}};
    EXPECT_EQ(base::status_of(encode_job(job)).code(), Code::kInvalid) << action.index();
  }
}

}  // namespace
}  // namespace forebay::prep
