#include <algorithm>
#include <charconv>

#include "base/checksum.h"
#include "base/limits.h"
#include "prep/wire/batch_header.h"

namespace forebay::prep {

using base::ByteWriter;

namespace {

constexpr std::array<uint8_t, kTensorAlignment> kZeros{};

template <class T>
void add_all(const std::vector<T>& values, ByteWriter* to) {
  to->bytes({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)});
}

// Writes the tables to `head`, and adds the bytes that come after them to `rest`.
class BatchWriter {
 public:
  BatchWriter(BatchBytes* out) : out_(*out), to_(&out->head) {}

  void add_bad(const feed::BadSample& bad) {
    const auto& [sample, chunk, key, reason] = bad;
    to_.number(sample);
    to_.sized(chunk);
    to_.sized(key);
    to_.sized(std::string_view(reason).substr(0, base::kBadReasonBytesMax));
  }
  void add(const image::OwnSize& own) {
    const auto& [size, bytes] = own;
    to_.number(OwnSizeEntry{size.width, size.height, bytes.size()});
    out_.rest.emplace_back(bytes);
  }
  void add(const ByteVector& file) {
    to_.number(uint64_t{file.size()});
    out_.rest.emplace_back(file);
  }
  void add(const feed::SampleTargets& targets) {
    const auto& [first_object, objects, masks, labels, drawn_on] = targets;
    const auto& [boxes, points, points_each, pairs] = objects;
    to_.number(first_object);
    to_.number(drawn_on.width);
    to_.number(drawn_on.height);
    to_.number(static_cast<uint32_t>(boxes.size()));
    to_.number(static_cast<uint32_t>(points.size()));
    add_all(boxes, &to_);
    add_all(points, &to_);
    add(masks);
    add(labels);
  }

 private:
  BatchBytes& out_;
  ByteWriter to_;
};

}  // namespace

uint64_t job_mark(std::string_view job_name, std::string_view list) {
  uint64_t mark = 0;
  for (const std::string_view name : {job_name, list}) {
    const std::string_view digits = name.substr(0, 2 * sizeof(uint64_t));
    uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    mark ^= number;
  }
  return mark;
}

uint32_t front_crc32c(Bytes head, std::span<const Bytes> rest) {
  uint32_t crc = base::crc32c(head.first(sizeof(BatchHeader) - sizeof crc));
  crc = base::crc32c(head.subspan(sizeof(BatchHeader)), crc);
  for (const Bytes piece : rest) crc = base::crc32c(piece, crc);
  return crc;
}

// The structured bindings here fail to compile if a field is added that is not sent.
BatchBytes encode_batch(const feed::Batch& batch, const std::vector<feed::BadSample>& bad,
                        std::string_view job_name, std::string_view list) {
  const auto& [images, images_bytes, images_each, size, whole, targets, files, labels, samples,
               drawn_for, valid, epoch, step] = batch;
  FOREBAY_CHECK(images_each == 1);  // encode_job() refuses further images
  BatchHeader header{.job = job_mark(job_name, list),
                     .epoch = epoch,
                     .step = step,
                     .tensor_bytes = images_bytes,
                     .samples = static_cast<uint32_t>(samples.size()),
                     .holds = (whole.empty() ? 0U : kHoldsWhole) |
                              (files.empty() ? 0U : kHoldsFiles) |
                              (targets.empty() ? 0U : kHoldsTargets),
                     .width = size.width,
                     .height = size.height,
                     .bad = static_cast<uint32_t>(bad.size())};
  BatchBytes out;
  out.head.resize(sizeof header);
  ByteWriter columns(&out.head);
  add_all(samples, &columns);
  add_all(drawn_for, &columns);
  add_all(labels, &columns);
  add_all(valid, &columns);
  BatchWriter writer(&out);
  for (const feed::BadSample& one : bad) writer.add_bad(one);
  for (const image::OwnSize& one : whole) writer.add(one);
  for (const ByteVector& one : files) writer.add(one);
  for (const feed::SampleTargets& one : targets) writer.add(one);
  std::erase_if(out.rest, [](Bytes piece) { return piece.empty(); });

  uint64_t front = out.head.size();
  for (const Bytes piece : out.rest) front += piece.size();
  header.front_bytes = base::round_up(front, kTensorAlignment);
  out.rest.push_back(Bytes(kZeros).first(header.front_bytes - front));
  const Bytes tensor(images, images_bytes);
  header.tensor_crc32c = base::crc32c(tensor);
  base::store_le(out.head.data(), header);
  header.front_crc32c = front_crc32c(out.head, out.rest);
  base::store_le(out.head.data(), header);
  if (!tensor.empty()) out.rest.push_back(tensor);
  out.bytes = header.front_bytes + header.tensor_bytes;
  return out;
}

}  // namespace forebay::prep
