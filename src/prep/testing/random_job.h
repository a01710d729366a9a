// For tests: jobs with random options, and their texts.
#pragma once

#include <gtest/gtest.h>

#include "prep/testing/random_steps.h"
#include "prep/wire/job.h"

namespace forebay::prep {

inline const std::string kDataset(64, 'a');
inline const std::string kHost(64, 'b');

inline std::string encoded(const PrepJob& job) {
  auto out = encode_job(job);
  EXPECT_TRUE(out) << out.error().message();
  return out.value_or(EncodedJob()).text;
}

inline PrepJob decoded(const std::string& text) {
  auto job = decode_job(text);
  EXPECT_TRUE(job) << job.error().message() << "\n" << text;
  return job.value_or(PrepJob());
}

inline Status error_of(std::string_view text) { return base::status_of(decode_job(text)); }

// A job with random options and these steps, which check_options() accepts.
inline PrepJob make_job(RandomSteps& random, std::vector<image::Step> steps) {
  PrepJob job{.dataset = kDataset, .host = kHost};
  feed::FeedOptions& options = job.options;
  options.images = random.flip() ? feed::Images::kTensor : feed::Images::kOwnSize;
  options.files = random.flip();
  options.transform = {.size = {32, 32},
                       .crop = random.crop(),
                       .crop_size = image::Size{40, 40},
                       .flip = random.within(0, 1),
                       .vertical_flip = random.within(0, 1),
                       .steps = std::move(steps),
                       .interpolation = random.interpolation(),
                       .scaled_decode = random.flip(),
                       .oriented = random.flip()};
  if (random.flip()) options.transform.crop_size = std::nullopt;
  options.transform.erasing.probability = random.within(0, 1);
  options.transform.erasing.noise = random.flip();
  options.tensor = {random.flip() ? image::DType::kFloat32 : image::DType::kBfloat16,
                    random.one_of<image::Layout>(2),
                    {static_cast<float>(random.within(0, 1)), 0, 0},
                    {static_cast<float>(random.within(0.1, 1)), 1, 1}};
  options.damaged = random.one_of<image::Damaged>(2);
  options.world_size = 3;
  options.rank = static_cast<int>(random.below(3));
  options.global_batch = 3 * (1 + random.below(50));
  options.seed = ~uint64_t{0} - random.below(1000);
  if (random.flip()) options.order = feed::Stored{};
  options.replace_bad = random.flip();
  options.drop_last = random.flip();
  options.even_ranks = random.flip();
  options.lanes = 1 + random.below(100);
  options.group_bytes = 1 + random.below(1'000'000);
  options.bad_samples_max = random.below(1000);
  return job;
}

// A job with a step of every kind.
inline PrepJob make_full_job(uint64_t seed) {
  RandomSteps random(seed);
  std::vector<image::Step> steps;
  for (size_t kind = 0; kind < RandomSteps::kKinds; ++kind) steps.push_back(random.step(kind));
  return make_job(random, std::move(steps));
}

}  // namespace forebay::prep
