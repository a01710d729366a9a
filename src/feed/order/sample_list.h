// An epoch's samples as a list, if they are not simply all samples once: from a sampler, or drawn
// by weights.
#pragma once

#include <vector>

#include "feed/order/sample_weights.h"

namespace forebay::feed {

struct SampleList {
  // Numbers in the dataset, by position; a number may come several times.
  std::vector<uint64_t> samples;
  // The number below 2^48 that the augmentation at each position is drawn for; empty: the samples'
  // own numbers. They give a sample that comes again a different augmentation.
  std::vector<uint64_t> drawn_for;
  // The position at which each step ends, for steps of different sizes; the last is the number of
  // samples. Empty: each step has a global batch. Only for world size 1, without drop_last.
  std::vector<uint64_t> step_ends;

  // The number of samples in the largest step of `step_ends`; 0 if it is empty.
  uint64_t largest_step() const;
};

// Errors: kInvalid, when the list contradicts itself or does not suit a dataset of
// `dataset_samples` samples.
base::Status check_list(const SampleList& list, uint64_t dataset_samples);

// Draws the samples of an epoch's first `count` positions by weights. The augmentation of a sample
// that came k times before is drawn for its number plus k times the dataset's size, modulo 2^48.
SampleList draw_samples(const SampleWeights& weights, uint64_t seed, uint64_t epoch,
                        uint64_t count);

}  // namespace forebay::feed
