// deps: forebay_prep
// Decodes any bytes as a job's text, as a table, or as a batch whose checksums are right. The
// result must be an error, or what encodes to the same bytes. Steps of a job can be drawn.
#include <algorithm>

#include "base/checksum.h"
#include "prep/wire/batch_header.h"
#include "prep/wire/job.h"

using namespace forebay;

namespace {

// The text with the version of this Forebay, so that a corpus outlives a version.
std::string with_version(std::string text) {
  constexpr std::string_view kMember = R"("forebay":")";
  const std::string own =
      prep::encode_job({.dataset = std::string(64, 'a'), .host = std::string(64, 'b')})
          .value()
          .text;
  const size_t from = own.find(kMember);
  const size_t at = text.find(kMember);
  const size_t end = at == text.npos ? at : text.find('"', at + kMember.size());
  if (end == text.npos) return text;
  return text.replace(at, end - at, own, from, own.find('"', from + kMember.size()) - from);
}

void decode_job(const std::string& text) {
  const auto job = prep::decode_job(text);
  if (!job) return;
  FOREBAY_CHECK(prep::encode_job(*job).value().text == text);
  image::Annotations objects{.boxes = {{1, 2, 30, 40}}, .points = {{5, 6}}};
  static_cast<void>(image::draw(job->options.transform, {50, 60},
                                base::Random(1, base::Purpose::kTest), {}, &objects));
}

template <class T>
void check_table(base::Bytes bytes, const base::Result<T>& table) {
  if (table) FOREBAY_CHECK(std::ranges::equal(*prep::table_of(*table).bytes, bytes));
}

void decode_table(base::Bytes bytes) {
  check_table(bytes, prep::decode_weights(bytes));
  check_table(bytes, prep::decode_list(bytes));
  check_table(bytes, prep::decode_selected(bytes));
  const auto targets = prep::decode_targets(bytes);
  check_table(bytes, targets);
  const uint64_t samples = targets && !targets->first.empty() ? targets->first.size() - 1 : 0;
  if (samples == 0 || !feed::check_targets(*targets, samples).ok()) return;
  for (uint64_t sample = 0; sample < std::min<uint64_t>(samples, 8); ++sample) {
    if (targets->outlines) static_cast<void>(targets->outlines_of(sample, {40, 30}));
    static_cast<void>(targets->objects(sample));
  }
}

// Two samples of 2 x 2 pixels; `kind` says what they have.
prep::Expected expect(uint8_t kind) {
  feed::FeedOptions options;
  options.images = static_cast<feed::Images>(kind % 4);
  options.files = kind & 4;
  options.global_batch = 2;
  options.transform.size = image::square(2);
  options.tensor.dtype = image::DType::kUint8;
  if (kind & 8) {
    feed::Targets targets;
    targets.boxes.resize(3);
    targets.points_each = kind & 16 ? 2 : 0;
    if (kind & 32) targets.outlines.emplace();
    options.targets = std::make_shared<const feed::Targets>(std::move(targets));
  }
  return prep::expected_batches(options, 2);
}

void decode_batch(base::Bytes bytes, uint8_t kind) {
  std::shared_ptr<uint8_t> memory(new uint8_t[bytes.size()], std::default_delete<uint8_t[]>());
  std::ranges::copy(bytes, memory.get());
  if (bytes.size() >= sizeof(prep::BatchHeader)) {
    auto header = base::load_le<prep::BatchHeader>(memory.get());
    const size_t front = std::clamp<uint64_t>(header.front_bytes, sizeof header, bytes.size());
    header.tensor_crc32c = base::crc32c(bytes.subspan(front));
    base::store_le(memory.get(), header);
    header.front_crc32c = prep::front_crc32c({memory.get(), front}, {});
    base::store_le(memory.get(), header);
  }
  const base::ByteVector sealed(memory.get(), memory.get() + bytes.size());
  const auto received = prep::decode_batch(memory, bytes.size(), expect(kind));
  if (!received) return;
  const auto again = prep::encode_batch(*received->batch, received->bad, "");
  base::ByteVector all = again.head;
  for (const base::Bytes piece : again.rest) all.insert(all.end(), piece.begin(), piece.end());
  FOREBAY_CHECK(all == sealed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const base::Bytes rest(data + 1, size - 1);
  if (data[0] == 'J') {
    decode_job(with_version(std::string(base::as_text(rest))));
  } else if (data[0] == 'T') {
    decode_table(rest);
  } else {
    decode_batch(rest, data[0]);
  }
  return 0;
}
