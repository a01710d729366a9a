#include "feed/testing/fake_dataset.h"

#include <gtest/gtest.h>
#include <png.h>

namespace forebay::feed {

using base::ByteVector;

namespace {

ByteVector encode_png(uint64_t sample) {
  const auto width = static_cast<uint32_t>(12 + sample % 5);
  const auto height = static_cast<uint32_t>(10 + sample % 7);
  ByteVector rgb;
  for (uint32_t i = 0; i < width * height * 3; ++i) {
    rgb.push_back(static_cast<uint8_t>(i * (sample * 2 + 1) + sample * 13 + (i * i >> 4)));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = FakeDataset::kSlotBytes - 512;
  ByteVector out(size);
  FOREBAY_CHECK(png_image_write_to_memory(&image, out.data(), &size, 0, rgb.data(), 0, nullptr));
  out.resize(size);
  return out;
}

}  // namespace

FakeDataset::FakeDataset(io::MemoryFileSystem& fs, const std::vector<uint32_t>& chunk_samples)
    : fs_(fs) {
  FOREBAY_CHECK(fs.make_dirs(path_).ok());
  for (uint32_t number = 0; number < chunk_samples.size(); ++number) {
    store::ChunkInfo chunk{.bytes = uint64_t{kSlotBytes} * chunk_samples[number],
                           .first_sample = sample_count(),
                           .samples = chunk_samples[number]};
    chunk.id[0] = static_cast<uint8_t>(number);
    ByteVector data(chunk.bytes);
    for (uint32_t i = 0; i < chunk.samples; ++i) {
      const uint64_t sample = sample_count();
      const ByteVector file = encode_png(sample);
      const uint64_t offset = uint64_t{i} * kSlotBytes + 512;
      std::copy(file.begin(), file.end(), data.begin() + static_cast<ptrdiff_t>(offset));
      locations_.push_back({.chunk = number,
                            .length = static_cast<uint32_t>(file.size()),
                            .offset = offset,
                            .crc32c = base::crc32c(file),
                            .label = static_cast<int32_t>(sample % 10)});
    }
    chunks_.push_back(chunk);
    auto file = fs.create(chunk_label(number)).value();
    FOREBAY_CHECK(file->append(data).ok());
  }
}

std::string FakeDataset::chunk_label(uint32_t number) const {
  return fmt::format("{}/{}.tar", path_, number);
}

base::Result<std::unique_ptr<io::ReadableFile>> FakeDataset::open_chunk(
    uint32_t number, store::Caching caching) const {
  return origin_->open(chunk_label(number), {.cached = caching == store::Caching::kCached});
}

std::shared_ptr<FakeDataset> FakeDataset::through(const io::Origin& origin) const {
  auto copy = std::make_shared<FakeDataset>(*this);
  copy->origin_ = &origin;
  return copy;
}

base::Result<std::string> FakeDataset::key(uint64_t sample, const io::ReadOptions&) const {
  return fmt::format("key{}", sample);
}
base::Result<std::optional<uint64_t>> FakeDataset::find(std::string_view) const {
  return std::nullopt;
}
base::Result<store::ChunkIndex> FakeDataset::read_chunk_index(uint32_t,
                                                              const io::ReadOptions&) const {
  return store::ChunkIndex{};
}

base::Bytes FakeDataset::file(uint64_t sample) const {
  const store::Location& location = locations_[sample];
  return base::Bytes(fs_.content(chunk_label(location.chunk)))
      .subspan(location.offset, location.length);
}

void FakeDataset::damage(uint64_t sample) {
  const store::Location& location = locations_[sample];
  fs_.content(chunk_label(location.chunk))[location.offset + location.length / 2] ^= 1;
}

void FakeDataset::make_undecodable(uint64_t sample) {
  store::Location& location = locations_[sample];
  uint8_t* at = fs_.content(chunk_label(location.chunk)).data() + location.offset;
  std::fill(at + 8, at + location.length, uint8_t{7});
  location.crc32c = base::crc32c({at, location.length});
}

}  // namespace forebay::feed
