// An epoch in motion: batches of prepared samples, in an order and with a randomness that depend
// on nothing but the dataset's content, the seed, the epoch and the options.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "feed/trace.h"
#include "image/gpu.h"
#include "image/prepare.h"
#include "store/dataset.h"

namespace forebay::feed {

using base::Result;
using base::Status;

// What a batch has of its samples' images.
enum class Images : uint8_t {
  kNone,
  kTensor,  // all in one, by FeedOptions::transform and tensor
  kWhole,   // each decoded, of its own size
};

// Where JPEGs are decoded, of batches on a GPU.
enum class Decode : uint8_t {
  kAuto,  // on the host, and as much on the GPU as it takes that the consumer does not wait
  kHost,
  kGpu,
};

struct FeedOptions {
  Images images = Images::kTensor;
  // Whether a batch has the samples' image files as they are stored.
  bool files = false;
  image::Transform transform;
  image::TensorOptions tensor;
  // What becomes of images whose pixels' data is damaged; with kRefuse they are bad samples.
  image::Damaged damaged = image::Damaged::kRefuse;
  // Where batches' tensors lie; null: in the host's memory.
  std::shared_ptr<image::gpu::Device> device;
  Decode decode = Decode::kAuto;
  // Samples of one step over all ranks; a multiple of world_size.
  uint32_t global_batch = 256;
  int rank = 0;
  int world_size = 1;
  uint64_t seed = 0;
  // The numbers below 2^48 that each sample's augmentation is drawn for; empty: each sample's own
  // number. They let it stay the same where a dataset is another selection in each epoch.
  std::vector<uint64_t> drawn_for;
  // false: in storage order.
  bool shuffle = true;
  // Whether a bad sample is replaced by another; false: masked.
  bool replace_bad = true;
  // Whether a last incomplete global batch is left out; else its missing samples are masked.
  bool drop_last = true;
  // Without drop_last: whether the last global batch repeats up to world_size - 1 samples of the
  // epoch's beginning, so that every rank has as many in it, and at least one.
  bool even_ranks = false;
  // Where each step ends, by its position, for steps of different sizes, none of which has more
  // than global_batch samples. Empty: steps of global_batch. For one rank in storage order.
  std::vector<uint64_t> step_ends;
  // Whether the next epoch is prepared while the last batches of one are consumed.
  bool next_epoch = true;
  // The order (feed/order.h).
  uint32_t lanes = 8;
  uint64_t group_bytes = 64'000'000;  // chunks shuffled together, at least one, per lane
  // 0: io::usable_cores().
  int threads = 0;
  // Batches prepared ahead of the consumer.
  int prefetch = 2;
  // Chunks and batches together, those that the consumer holds among them. Batches are prepared
  // less far ahead where they would exceed it; where even the next one does, an error (kNoMemory)
  // says what would help. A sample that replaces a bad one may exceed it by its own size.
  uint64_t memory_bytes_max = 4'000'000'000;
  // Whether chunks are read around the system's page cache: always, never, or (unset) when the
  // dataset is larger than half of the memory that is available, so that the cache could not hold
  // it from one epoch to the next.
  std::optional<bool> uncached;
  // Bad samples after which the run stops with an error; each one before is replaced and listed.
  // Each rank counts its own.
  uint64_t bad_samples_max = 100;
};

// A sample that could not be used at run time.
struct BadSample {
  uint64_t sample = 0;
  std::string chunk;  // its name (store::Dataset::chunk_name)
  std::string key;
  std::string reason;
  bool operator==(const BadSample&) const = default;
};

inline constexpr uint64_t kNoSample = ~uint64_t{0};

// This rank's share of a global batch: of the positions p of a step, those with p ≡ rank modulo
// world_size. Its memory is recycled when the last owner lets go.
struct Batch {
  // kTensor: [samples, 3, height, width] or [samples, height, width, 3], contiguous; in the memory
  // of FeedOptions::device.
  uint8_t* images = nullptr;
  size_t images_bytes = 0;
  image::Size size;                     // pixels
  std::vector<base::Pixels> whole;      // kWhole: one a sample; empty ones where it is not valid
  std::vector<base::ByteVector> files;  // one a sample, where asked for; empty where not valid
  std::vector<int32_t> labels;          // one a sample; -1: none
  // Numbers in the dataset (of the replacement, where replaced); kNoSample where there is none.
  std::vector<uint64_t> samples;
  // 0 at an epoch's ragged end and for masked samples; the image is zeros then.
  std::vector<uint8_t> valid;
  uint64_t epoch = 0;
  uint64_t step = 0;  // from 0 in the epoch
};

// Where an epoch stands: all that resuming needs, at any world size.
struct FeedState {
  uint64_t epoch = 0;
  // Samples of the epoch consumed over all ranks: where a step begins, or the epoch's end.
  uint64_t position = 0;
  // Samples at this rank's positions that could not be used, each once, by position.
  std::vector<BadSample> bad = {};
};

// Waits count when they have ended.
struct FeedStats {
  uint64_t samples = 0;
  uint64_t bytes_read = 0;
  uint64_t made_on_gpu = 0;       // of these samples' tensors, or of those that are prepared ahead
  int64_t wait_ns = 0;            // the consumer's, in wait_ms() and next()
  int64_t prepare_ns = 0;         // CPU time of the threads that decode
  int64_t starved_ns = 0;         // time in which they waited for what is read
  int64_t idle_ns = 0;            // time in which they had nothing to do: batches enough are ready
  int64_t read_ns = 0;            // CPU time of the threads that read
  int64_t reading_ns = 0;         // time in which they read
  uint64_t batch_bytes_peak = 0;  // the most that batches have taken at the same time
};

// One consumer thread calls everything here but stats() and trace(), which any thread may.
class Feed {
 public:
  // Errors: kInvalid for options that make no sense, each named.
  static Result<std::unique_ptr<Feed>> open(const io::FileSystem& fs,
                                            std::shared_ptr<const store::Dataset> dataset,
                                            const FeedOptions& options);
  virtual ~Feed() = default;

  // Steps in an epoch, the same on every rank.
  virtual uint64_t steps() const = 0;
  // Begins (again) at `state`; work in flight is dropped. kInvalid when the position does not fit.
  virtual Status start(const FeedState& state) = 0;
  // Waits for what next() would wait for, at most that long; false when it is not there yet.
  virtual bool wait_ms(int ms) = 0;
  // The next batch; empty at the epoch's end. While the last batches of an epoch are consumed the
  // next epoch is prepared already (FeedOptions::next_epoch): start() of it then goes on without a
  // pause.
  virtual Result<std::shared_ptr<const Batch>> next() = 0;
  // After the batch that next() gave last.
  virtual FeedState state() const = 0;
  virtual FeedStats stats() const = 0;
  // Of all threads and the consumer; off at first.
  virtual Trace& trace() = 0;
};

}  // namespace forebay::feed
