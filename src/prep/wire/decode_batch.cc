#include <algorithm>
#include <limits>

#include "base/checksum.h"
#include "base/limits.h"
#include "prep/wire/batch_header.h"

namespace forebay::prep {

using base::ByteReader;
using base::Code;
using base::fail;

namespace {

// A batch whose tensor lies in the memory that it was received into.
struct InMemory : feed::Batch {
  std::shared_ptr<uint8_t> memory;
};

bool is_whole(feed::Images images) {
  return images == feed::Images::kOwnSize || images == feed::Images::kWhole;
}

uint32_t holds_of(const Expected& expected) {
  return (is_whole(expected.images) ? kHoldsWhole : 0U) | (expected.files ? kHoldsFiles : 0U) |
         (expected.targets != nullptr ? kHoldsTargets : 0U);
}

// Reads the bytes before a batch's tensor. Errors name the position.
class BatchReader {
 public:
  BatchReader(Bytes front, const BatchHeader& header, const Expected& expected)
      : in_(front), header_(header), expected_(expected) {
    in_.bytes(sizeof(BatchHeader));
  }

  Status read(InMemory* batch, std::vector<feed::BadSample>* bad) {
    RETURN_IF_ERROR(read_columns(batch));
    RETURN_IF_ERROR(read_bad(bad));
    if (is_whole(expected_.images)) {
      batch->whole.resize(expected_.samples);
      for (image::OwnSize& one : batch->whole) {
        RETURN_IF_ERROR(read_entry("image", expected_.pixel_bytes, &one));
      }
    }
    if (expected_.files) RETURN_IF_ERROR(read_files(&batch->files));
    if (expected_.targets != nullptr) {
      batch->targets.resize(expected_.samples);
      for (feed::SampleTargets& one : batch->targets) RETURN_IF_ERROR(read_targets(&one));
    }
    for (const Blob& blob : blobs_) {
      const Bytes bytes = in_.bytes(blob.bytes);
      if (!in_.ok()) return cut_off("bytes of samples");
      blob.to->assign(bytes.begin(), bytes.end());
    }
    RETURN_IF_ERROR(check_masked(*batch));
    const Bytes padding = in_.bytes(in_.remaining());
    const bool is_zero = std::ranges::all_of(padding, [](uint8_t byte) { return byte == 0; });
    if (is_zero && padding.size() < kTensorAlignment) return {};
    return wrong("{} bytes between the samples and the tensor", padding.size());
  }

 private:
  // Bytes that come after the tables, and their destination.
  struct Blob {
    uint64_t bytes;
    ByteVector* to;
  };

  template <class... Args>
  Status wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::kCorrupt, "{}, before byte {}",
                fmt::format(format, std::forward<Args>(args)...), in_.position());
  }
  Status cut_off(std::string_view what) const { return wrong("the {} go beyond the end", what); }

  template <class T>
  bool read_all(uint64_t count, std::vector<T>* out) {
    const Bytes bytes = in_.bytes(base::checked_mul(count, sizeof(T)).value_or(~uint64_t{0}));
    if (!in_.ok()) return false;
    out->resize(count);
    std::ranges::copy(bytes, reinterpret_cast<uint8_t*>(out->data()));
    return true;
  }

  Status read_columns(feed::Batch* batch) {
    const uint32_t count = expected_.samples;
    const bool fits = read_all(count, &batch->samples) && read_all(count, &batch->drawn_for) &&
                      read_all(count, &batch->labels) && read_all(count, &batch->valid);
    if (!fits) return cut_off("columns");
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t sample = batch->samples[i];
      const bool is_masked = sample == feed::kNoSample && batch->valid[i] == 0;
      const bool is_known = sample < expected_.dataset_samples || is_masked;
      if (is_known && batch->valid[i] <= 1 && batch->drawn_for[i] <= base::kDrawnForMax) continue;
      return wrong("slot {} has sample {}, drawn for {}, and valid is {}", i, sample,
                   batch->drawn_for[i], batch->valid[i]);
    }
    return {};
  }

  Status read_bad(std::vector<feed::BadSample>* bad) {
    for (uint32_t i = 0; i < header_.bad; ++i) {
      feed::BadSample one{.sample = in_.number<uint64_t>(), .chunk = {}, .key = {}, .reason = {}};
      one.chunk = in_.sized(base::kSourcePathBytesMax);
      one.key = in_.sized(base::kKeyBytesMax);
      one.reason = in_.sized(base::kBadReasonBytesMax);
      if (!in_.ok()) return wrong("bad sample {} of {} is malformed", i, header_.bad);
      bad->push_back(std::move(one));
    }
    return {};
  }

  // Notes the size of a blob, which must lie within the remaining bytes.
  Status expect_blob(const char* what, uint64_t bytes, ByteVector* to) {
    const auto sum = base::checked_add(blob_bytes_, bytes);
    if (!in_.ok() || !sum || *sum > in_.remaining()) {
      return wrong("the bytes of a {} go beyond the end", what);
    }
    blob_bytes_ = *sum;
    if (bytes > 0) blobs_.push_back({bytes, to});
    return {};
  }

  // Reads a size, and expects a blob of height x width x `each` bytes.
  Status read_entry(const char* what, uint64_t each, image::OwnSize* out) {
    const auto entry = in_.number<OwnSizeEntry>();
    const uint64_t pixels = uint64_t{entry.width} * entry.height;
    const bool fits = entry.width <= base::kImageSideMax && entry.height <= base::kImageSideMax &&
                      base::checked_mul(pixels, each) == entry.bytes;
    if (!in_.ok() || !fits) {
      return wrong("{} bytes for a {} of {} x {} with {} bytes each", entry.bytes, what,
                   entry.width, entry.height, each);
    }
    out->size = {entry.width, entry.height};
    return expect_blob(what, entry.bytes, &out->bytes);
  }

  Status read_files(std::vector<ByteVector>* files) {
    files->resize(expected_.samples);
    for (ByteVector& file : *files) {
      const auto bytes = in_.number<uint64_t>();
      if (bytes > base::kImageBytesMax) return wrong("a file of {} bytes", bytes);
      RETURN_IF_ERROR(expect_blob("file", bytes, &file));
    }
    return {};
  }

  Status read_targets(feed::SampleTargets* out) {
    const feed::Targets& tables = *expected_.targets;
    out->first_object = in_.number<uint64_t>();
    out->drawn_on.width = in_.number<uint32_t>();
    out->drawn_on.height = in_.number<uint32_t>();
    const auto boxes = in_.number<uint32_t>();
    const auto points = in_.number<uint32_t>();
    if (!base::in_bounds(out->first_object, boxes, tables.boxes.size()) ||
        points != uint64_t{boxes} * tables.points_each) {
      return wrong("{} boxes with {} keypoints from box {} on, of {}", boxes, points,
                   out->first_object, tables.boxes.size());
    }
    if (std::max(out->drawn_on.width, out->drawn_on.height) > base::kImageSideMax) {
      return wrong("annotations of an image of {} x {} pixels", out->drawn_on.width,
                   out->drawn_on.height);
    }
    if (!read_all(boxes, &out->objects.boxes) || !read_all(points, &out->objects.points)) {
      return cut_off("boxes and keypoints");
    }
    RETURN_IF_ERROR(read_entry("mask", boxes, &out->masks));
    RETURN_IF_ERROR(read_labels(&out->labels));
    const bool fits = (tables.outlines || out->masks.size == image::Size{}) &&
                      (tables.maps != nullptr || out->labels.size == image::Size{});
    return fits ? Status() : wrong("masks or maps of labels that were not asked for");
  }

  // Maps of labels have one or two bytes for each label.
  Status read_labels(image::OwnSize* out) {
    ByteReader ahead = in_;
    const auto entry = ahead.number<OwnSizeEntry>();
    const uint64_t pixels = uint64_t{entry.width} * entry.height;
    const uint64_t each = entry.bytes > pixels ? sizeof(uint16_t) : sizeof(uint8_t);
    return read_entry("map of labels", each, out);
  }

  // Masked samples must have no image, file or boxes.
  Status check_masked(const feed::Batch& batch) const {
    for (uint32_t i = 0; i < expected_.samples; ++i) {
      if (batch.valid[i] != 0) continue;
      const bool has_image = !batch.whole.empty() && batch.whole[i].size != image::Size{};
      const bool has_file = !batch.files.empty() && !batch.files[i].empty();
      const bool has_objects = !batch.targets.empty() && !batch.targets[i].objects.boxes.empty();
      if (has_image || has_file || has_objects) return wrong("slot {} is masked, but not empty", i);
    }
    return {};
  }

  ByteReader in_;
  const BatchHeader& header_;
  const Expected& expected_;
  std::vector<Blob> blobs_;
  uint64_t blob_bytes_ = 0;
};

// Checks that the header and the checksums fit the bytes.
Status check_bytes(Bytes bytes, const BatchHeader& header) {
  if (header.magic != kBatchMagic || header.format != kBatchFormat) {
    return fail(Code::kCorrupt, "its first bytes are not those of a batch");
  }
  if (base::checked_add(header.front_bytes, header.tensor_bytes) != bytes.size() ||
      header.front_bytes < sizeof header || header.front_bytes % kTensorAlignment != 0) {
    return fail(Code::kCorrupt, "{} bytes came, but its header announces {} + {}", bytes.size(),
                header.front_bytes, header.tensor_bytes);
  }
  const Bytes front = bytes.first(header.front_bytes);
  if (front_crc32c(front, {}) != header.front_crc32c) {
    return fail(Code::kCorrupt, "the checksum of its first {} bytes is wrong", front.size());
  }
  if (base::crc32c(bytes.subspan(front.size())) != header.tensor_crc32c) {
    return fail(Code::kCorrupt, "the checksum of its tensor is wrong");
  }
  return {};
}

Status check_expected(const BatchHeader& header, const Expected& expected) {
  if (header.job != job_mark(expected.job, expected.list)) {
    return fail(Code::kCorrupt, "it belongs to another job, or to another list of samples");
  }
  if (header.epoch != expected.epoch || header.step != expected.step) {
    return fail(Code::kCorrupt, "it is step {} of epoch {}", header.step, header.epoch);
  }
  if (header.samples != expected.samples || header.tensor_bytes != expected.tensor_bytes ||
      image::Size{header.width, header.height} != expected.size ||
      header.holds != holds_of(expected)) {
    return fail(Code::kCorrupt,
                "it has {} samples of {} x {}, a tensor of {} bytes and kind {}, but {} samples of "
                "{} x {}, a tensor of {} bytes and kind {} were expected",
                header.samples, header.width, header.height, header.tensor_bytes, header.holds,
                expected.samples, expected.size.width, expected.size.height, expected.tensor_bytes,
                holds_of(expected));
  }
  return {};
}

Status make_numbers(const FromBytes& from_bytes, InMemory* batch) {
  try {
    batch->memory = from_bytes.make(batch->images, batch->valid);
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "no memory for its numbers");
  }
  batch->images = batch->memory.get();
  batch->images_bytes = from_bytes.tensor_bytes(batch->valid.size());
  return {};
}

Result<ReceivedBatch> decode(std::shared_ptr<uint8_t> memory, uint64_t length,
                             const Expected& expected) {
  const Bytes bytes(memory.get(), length);
  if (length < sizeof(BatchHeader)) return fail(Code::kCorrupt, "only {} bytes came", length);
  const auto header = base::load_le<BatchHeader>(bytes.data());
  RETURN_IF_ERROR(check_bytes(bytes, header));
  RETURN_IF_ERROR(check_expected(header, expected));
  auto batch = std::make_shared<InMemory>();
  ReceivedBatch out;
  BatchReader reader(bytes.first(header.front_bytes), header, expected);
  RETURN_IF_ERROR(reader.read(batch.get(), &out.bad));
  batch->size = expected.size;
  batch->epoch = expected.epoch;
  batch->step = expected.step;
  batch->images_bytes = header.tensor_bytes;
  if (header.tensor_bytes > 0) batch->images = memory.get() + header.front_bytes;
  batch->memory = std::move(memory);
  if (expected.from_bytes != nullptr)
    RETURN_IF_ERROR(make_numbers(*expected.from_bytes, batch.get()));
  out.batch = std::move(batch);
  return out;
}

}  // namespace

Expected expected_batches(const feed::FeedOptions& options, uint64_t slots) {
  const image::TensorWriter writer(options.tensor);
  const bool is_tensor = options.images == feed::Images::kTensor;
  const bool is_own = options.images == feed::Images::kOwnSize;
  return {.samples = static_cast<uint32_t>(slots),
          .images = options.images,
          .files = options.files,
          .targets = options.targets,
          .size = options.transform.size,
          .tensor_bytes = is_tensor ? slots * writer.sample_bytes(options.transform.size) : 0,
          .pixel_bytes = static_cast<uint32_t>(is_own ? writer.sample_bytes({1, 1}) : 3)};
}

Result<ReceivedBatch> decode_batch(std::shared_ptr<uint8_t> memory, uint64_t bytes,
                                   const Expected& expected) {
  auto out = decode(std::move(memory), bytes, expected);
  if (out) return out;
  return tl::unexpected(out.error().at(
      fmt::format("the batch for step {} of epoch {}", expected.step, expected.epoch)));
}

}  // namespace forebay::prep
