// Turns a sample's file into what its slot of a batch holds: a tensor, pixels, or the file itself.
#pragma once

#include <optional>

#include "feed/batch/options.h"
#include "image/prepare_gpu.h"

namespace forebay::feed {

// Where the data of one sample of a batch is written; null for data that the batch does not have.
struct Slot {
  uint8_t* image = nullptr;          // Images::kTensor; in the memory of FeedOptions::device
  image::OwnSize* whole = nullptr;   // Images::kOwnSize and kWhole
  base::ByteVector* file = nullptr;  // FeedOptions::files
  SampleTargets* targets = nullptr;  // FeedOptions::targets
  size_t slots = 0;  // slots of the batch: a sample's next image is this many places further on
  int32_t* label = nullptr;
  uint64_t* sample = nullptr;
  uint64_t* drawn_for = nullptr;
  uint8_t* valid = nullptr;
};

struct SlotRequest {
  base::Bytes file;
  uint64_t sample = 0;  // its number in the dataset
  base::Random random;
  Slot slot;
  base::Bytes map = {};  // its map of labels, checked; empty: write() reads it if it is needed
  // The results of SlotWriter::begin(): the header and the draw, if they are needed before the
  // image is made; the sample's annotations, moved by the draw; the bytes that the sample's file,
  // images in their own sizes and masks will take in a batch.
  std::optional<image::BegunSample> begun = {};
  image::Annotations objects = {};
  uint64_t bytes = 0;
  Status status = {};  // the outcome; after an error nothing in the slot may be used
};

// Keeps its buffers from one sample to the next. One thread at a time may use it.
class SlotWriter {
 public:
  explicit SlotWriter(const FeedOptions& options);

  // Reads the header and draws, if the results are needed before write(). Errors, in the request's
  // status: those of image::begin_sample(); kInvalid for annotations of another image size.
  void begin(SlotRequest* request) const;
  // Writes images, files and targets; the caller writes labels and numbers. Each request must have
  // been given to begin(); requests with an error are left out. Several small images at once are
  // faster. With `on_gpu` the GPU, if there is one, makes the tensors. `read` limits the reads of
  // masks and further images. Errors: those of image::Preparer::prepare() and of reading; kInvalid
  // if a sample's images have different sizes.
  void write(std::span<SlotRequest> requests, bool on_gpu, const io::ReadOptions& read);
  // Empties a slot that has no valid sample, and writes the two numbers to it. Errors: the
  // device's.
  Status clear(const Slot& slot, uint64_t sample, uint64_t drawn_for);

  // Bytes of an image in a tensor; 0 if batches have no tensor.
  size_t sample_bytes() const { return sample_bytes_; }
  uint64_t made_on_gpu() const { return gpu_ ? gpu_->made_on_gpu() : 0; }
  // Reads of further images.
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t reads() const { return reads_; }

 private:
  // A further image that was read for a request, with its header.
  struct FurtherFile {
    SlotRequest* of = nullptr;
    base::ByteVector file;
    image::Encoded source;
  };

  void write_images(std::span<SlotRequest> requests, bool on_gpu);
  void write_further(size_t number, std::span<SlotRequest> requests, bool on_gpu,
                     const io::ReadOptions& read);
  Result<FurtherFile> read_further(size_t number, SlotRequest& request,
                                   const io::ReadOptions& read);
  void finish_further(size_t number, bool on_gpu);
  void write_tensors(std::span<SlotRequest> requests, bool on_gpu);
  void write_whole(std::span<SlotRequest> requests);
  Status write_targets(SlotRequest& request, const io::ReadOptions& read);
  Status write_map(const SlotRequest& request, const image::Encoded& image,
                   const image::Draw& drawn, const io::ReadOptions& read);
  Status clear_image(uint8_t* image);
  Result<image::BegunSample> begun_sample(SlotRequest* request) const;
  uint64_t bytes_of(const SlotRequest& request) const;

  const Images images_;
  const bool files_;
  const image::Transform transform_;
  const std::shared_ptr<const Targets> targets_;
  const std::vector<std::shared_ptr<const FurtherImages>> further_;
  // One of these two is set if images are made with the transform.
  std::optional<image::Preparer> preparer_;
  std::optional<image::GpuPreparer> gpu_;
  std::vector<image::PrepareRequest> prepares_;
  image::MaskMaker masks_;
  base::ByteVector map_;
  image::ImageDecoder decoder_;
  std::vector<image::DecodeRequest> decodes_;
  std::vector<size_t> numbers_;  // the request of each entry of prepares_ or decodes_
  size_t sample_bytes_ = 0;
  std::vector<FurtherFile> further_files_;
  std::vector<SlotRequest> further_requests_;  // one for each of further_files_
  uint64_t bytes_read_ = 0;
  uint64_t reads_ = 0;
};

}  // namespace forebay::feed
