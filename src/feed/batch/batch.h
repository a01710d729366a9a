// What the consumer receives for each step.
#pragma once

#include <cstdint>
#include <vector>

#include "feed/batch/targets.h"

namespace forebay::feed {

inline constexpr uint64_t kNoSample = ~uint64_t{0};

// This rank's part of a global batch: of a step's positions p, those with p ≡ rank modulo
// world_size. Its memory is recycled when the last owner lets go.
struct Batch {
  // Images::kTensor: [samples, 3, height, width] or [samples, height, width, 3], contiguous, in the
  // memory of FeedOptions::device. The tensors of FeedOptions::further follow, one after the other.
  uint8_t* images = nullptr;
  size_t images_bytes = 0;   // of all tensors
  uint32_t images_each = 1;  // images of each sample: its own, and its further ones
  image::Size size;          // pixels
  // Images::kOwnSize, and kWhole (bytes of height x width x 3): one for each sample; empty where
  // `valid` is 0. Those of FeedOptions::further follow, one for each sample again.
  std::vector<image::OwnSize> whole;
  // FeedOptions::targets: one for each sample; empty where `valid` is 0.
  std::vector<SampleTargets> targets;
  // FeedOptions::files: one for each sample; empty where `valid` is 0.
  std::vector<base::ByteVector> files;
  std::vector<int32_t> labels;  // one for each sample; -1: it has none
  // Numbers in the dataset; for a replaced sample, the number of its replacement; kNoSample if the
  // slot is empty.
  std::vector<uint64_t> samples;
  // The numbers below 2^48 that these samples' augmentation is drawn for in this epoch; 0 if the
  // slot is empty. A replacement has its own number here, but its crop and augmentation steps are
  // those that were drawn for the sample that it replaces.
  std::vector<uint64_t> drawn_for;
  // 0 after an epoch's last sample and for masked samples, whose image is all zeros; else 1.
  std::vector<uint8_t> valid;
  uint64_t epoch = 0;
  uint64_t step = 0;  // from 0 in the epoch
};

}  // namespace forebay::feed
