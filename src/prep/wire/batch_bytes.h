// A whole batch as bytes, as a prep server sends it. Pure codec. The grammar, numbers
// little-endian:
//
//   batch   = header columns bad tables blobs padding tensor
//   header  = magic u64, job u64, epoch u64, step u64, front u64, tensor u64, format u32,
//             samples u32, holds u32, width u32, height u32, bad u32, tensor CRC32C u32,
//             front CRC32C u32
//   columns = samples u64 each, drawn_for u64 each, labels i32 each, valid u8 each
//   bad     = (sample u64, chunk text, key text, reason text) each; text = bytes u32, UTF-8
//   tables  = for each of `holds`: whole = (width u32, height u32, bytes u64) for each sample;
//             files = (bytes u64) for each sample; targets = (first_object u64, drawn-on width u32
//             and height u32, boxes u32, points u32, the boxes and points f32 each, two tables as
//             `whole`'s: masks and labels)
//   blobs   = the bytes of the images, then of the files, then each sample's masks and labels
//
// The first `front` bytes are all that comes before the tensor, which begins at a multiple of 64.
// The front CRC32C covers these bytes except its own four.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "feed/batch/batch.h"
#include "feed/batch/options.h"
#include "feed/batch/state.h"
#include "prep/wire/wire_bytes.h"

namespace forebay::prep {

using base::Bytes;
using base::ByteVector;
using base::Result;
using base::Status;

// An encoded batch: `head`, and then `rest`, whose bytes belong to the batch.
struct BatchBytes {
  ByteVector head;
  std::vector<Bytes> rest;
  uint64_t bytes = 0;  // in all
};
// Encodes a batch, which must be in the CPU's memory and must outlive the result. `list` is the
// name of the table with the batch's samples; empty: they are the job's own. `bad` are the samples
// that could not be used for this batch; reasons longer than base::kBadReasonBytesMax are cut.
BatchBytes encode_batch(const feed::Batch& batch, const std::vector<feed::BadSample>& bad,
                        std::string_view job_name, std::string_view list = "");

// What a host knows about a batch before it arrives.
struct Expected {
  std::string job = {};   // the job_name()
  std::string list = {};  // the name of the table with the batch's samples; empty: the job's own
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t dataset_samples = base::kSamplesMax;
  uint32_t samples = 0;
  feed::Images images = feed::Images::kTensor;
  bool files = false;
  std::shared_ptr<const feed::Targets> targets = {};  // null: batches have no targets
  image::Size size = {};                              // Batch::size
  uint64_t tensor_bytes = 0;
  uint32_t pixel_bytes = 0;  // of a pixel, for images of their own sizes
  // Makes the batch's tensor from the received one; null: the received tensor is the batch's.
  std::shared_ptr<const FromBytes> from_bytes = {};
};
// What all batches of a feed with these options have, if each has this number of slots
// (feed::Steps::batch). The caller sets the job, the list, the epoch, the step and the number of
// the dataset's samples.
Expected expected_batches(const feed::FeedOptions& options, uint64_t slots);

struct ReceivedBatch {
  std::shared_ptr<const feed::Batch> batch;
  std::vector<feed::BadSample> bad;
};
// Decodes `bytes` untrusted bytes at `memory`, which must begin at a multiple of 64;
// base::kPlanarPadding more bytes must be readable. The batch's tensor stays in this memory, which
// lives as long as the batch; all else is copied. Errors: kCorrupt, with the reason, if
// encode_batch() cannot have made the bytes for the expected batch; kNoMemory.
Result<ReceivedBatch> decode_batch(std::shared_ptr<uint8_t> memory, uint64_t bytes,
                                   const Expected& expected);

}  // namespace forebay::prep
