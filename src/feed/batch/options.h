// The options of a feed. One plain struct; Feed::open() checks it once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "feed/batch/further_images.h"
#include "feed/batch/targets.h"
#include "feed/order/order_source.h"
#include "feed/order/step_schedule.h"
#include "image/gpu/device_gpu.h"

namespace forebay::feed {

// What a batch contains of its samples' images.
enum class Images : uint8_t {
  kNone,
  kTensor,   // one tensor for all, made with FeedOptions::transform and tensor
  kOwnSize,  // each made with FeedOptions::transform and tensor, at a size of its own
  kWhole,    // each image decoded at its own size
};

// Where JPEGs are decoded when the batches are on a GPU.
enum class Decode : uint8_t {
  kAuto,  // on the host, and on the GPU just enough that the consumer does not wait
  kHost,
  kGpu,
};

// Whether only the parts of images are read that their samples need. The batches are the same,
// except that damage outside of a crop goes unseen; `forebay verify` finds it.
enum class Regions : uint8_t {
  kAuto,   // where images come over a network and parts of them can be read
  kNever,  // images are always read as a whole
};

struct FeedOptions {
  Images images = Images::kTensor;
  // Whether a batch also contains the samples' image files as they are stored.
  bool files = false;
  // Annotations, which move with the images of kTensor and kOwnSize; null: none.
  std::shared_ptr<const Targets> targets = {};
  // Images of the samples besides their own ones; batches have them in this order.
  std::vector<std::shared_ptr<const FurtherImages>> further = {};
  image::Transform transform;
  image::TensorOptions tensor;
  // What to do with images whose pixel data is damaged; with kRefuse they are bad samples.
  image::Damaged damaged = image::Damaged::kRefuse;
  // The GPU in whose memory the batches' tensors are; null: they are in the host's memory.
  std::shared_ptr<image::gpu::Device> device;
  Decode decode = Decode::kAuto;
  // Samples of one step over all ranks; a multiple of world_size.
  uint32_t global_batch = 256;
  int rank = 0;
  int world_size = 1;
  uint64_t seed = 0;
  // Which samples epochs have, and in which order. Feed::start() may give an epoch a list instead.
  OrderSource order = Shuffled{};
  // Whether a bad sample is replaced by another one; false: it is masked.
  bool replace_bad = true;
  // Whether a last incomplete global batch is left out; false: its missing samples are masked.
  bool drop_last = true;
  // Without drop_last: whether the last global batch repeats up to world_size - 1 samples from the
  // epoch's beginning, so that every rank has the same number of samples in it, at least one.
  bool even_ranks = false;
  // Whether the next epoch is prepared while the last batches of one are consumed. This never
  // happens after an epoch that is a list, because it is not known what comes next.
  bool next_epoch = true;
  // How a shuffled order is made (feed/order/order.h).
  uint32_t lanes = 8;
  uint64_t group_bytes = 64'000'000;  // chunks shuffled together in each lane, at least one
  // Threads that decode; 0: io::usable_cores().
  int threads = 0;
  // Batches prepared ahead of the consumer.
  int prefetch = 2;
  // Limits chunks and batches together, including the batches that the consumer holds. Fewer
  // batches are prepared ahead where they would exceed it; where even the next batch would, an
  // error (kNoMemory) says what would help. A sample that replaces a bad one may exceed the limit
  // by its own size, and indexes of chunks that come over a network take up to a sixteenth more.
  uint64_t memory_bytes_max = 4'000'000'000;
  // Whether chunks are read around the system's page cache. Unset: only when the dataset is larger
  // than half of the available memory, because the cache could then not hold it from one epoch to
  // the next.
  std::optional<bool> uncached;
  Regions regions = Regions::kAuto;
  // Leaves out steps that others prepare; null: none.
  std::shared_ptr<StepFilter> filter = {};
  // How many bad samples are replaced and listed; one more stops the run with an error. Each rank
  // counts its own.
  uint64_t bad_samples_max = 100;
};

// Errors: kInvalid, naming the option.
Status check_options(const FeedOptions& options);
// Checks options, and whether they suit a dataset. Errors: kInvalid, also if the dataset is null.
Status check_feed(const store::Dataset* dataset, const FeedOptions& options);
// Checks that a list suits the options and a dataset of `samples` samples. Errors: kInvalid.
Status check_list(const FeedOptions& options, const SampleList& list, uint64_t samples);

}  // namespace forebay::feed
