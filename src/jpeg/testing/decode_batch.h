// For tests: sends many files through every kernel side by side, and compares with libjpeg-turbo.
#pragma once

#include <gtest/gtest.h>

#include "jpeg/decode.h"
#include "jpeg/region_batch.h"
#include "jpeg/testing/jpeg_samples.h"
#include "jpeg/testing/kernel_samples.h"
#include "jpeg/turbo_decode.h"

namespace forebay::jpeg {

// Files with a crop of each. Every kernel must give the pixels of libjpeg-turbo for the whole
// image, and the same pixels, cropped, for the crop.
class DecodeBatch {
 public:
  DecodeBatch() {
    for (const EntropyKernel kernel : kernels()) ours_.push_back(std::make_unique<Ours>(kernel));
  }

  // Adds a file. `name` appears in messages about differing pixels. With `our_way`, the decoder
  // must not leave the file to libjpeg-turbo. Checks all files when there are enough.
  void add(base::ByteVector file, const base::Rect& crop, std::string name, bool our_way = true) {
    if (count_ == files_.size()) files_.emplace_back();
    File& to = files_[count_++];
    to.header = *parse_header(file);
    to.bytes = std::move(file);
    to.crop = crop;
    to.name = std::move(name);
    to.our_way = our_way;
    const base::Rect whole{0, 0, to.header.width, to.header.height};
    to.good = turbo_.decode(to.bytes, to.header, whole, &to.expected).ok();
    EXPECT_TRUE(to.good || !our_way) << to.name;
    if (count_ == kFiles) check();
  }

  void check() {
    for (const auto& ours : ours_) {
      check_way(ours->region_batch);
      check_pixels(ours->decoder);
    }
    count_ = 0;
  }

 private:
  static constexpr size_t kFiles = 24;
  struct File {
    base::ByteVector bytes;
    Header header;
    base::Rect crop;
    std::string name;
    bool our_way = true;
    bool good = true;
    base::Pixels expected;
  };
  struct Ours {
    explicit Ours(EntropyKernel kernel)
        : decoder({.kernel = kernel, .turbo_where_faster = false}), region_batch(kernel) {}
    Decoder decoder;
    RegionBatch region_batch;
  };

  void check_way(RegionBatch& decoder) {
    std::vector<const File*> added;
    const auto run = [&] {
      decoder.run();
      for (size_t i = 0; i < added.size(); ++i) EXPECT_TRUE(decoder.good(i)) << added[i]->name;
      added.clear();
      decoder.begin();
    };
    decoder.begin();
    for (size_t i = 0; i < count_; ++i) {
      const File& file = files_[i];
      if (!file.our_way) continue;
      const auto scan = read_scan(file.bytes, file.header);
      ASSERT_TRUE(scan) << file.name;
      const base::Rect whole{0, 0, file.header.width, file.header.height};
      auto done = decoder.add(*scan, file.bytes, whole, true);
      if (done == RegionBatch::Added::kNoRoom) {
        run();
        done = decoder.add(*scan, file.bytes, whole, true);
      }
      ASSERT_EQ(done, RegionBatch::Added::kYes) << file.name;
      added.push_back(&file);
    }
    run();
  }

  // Decodes whole images and crops in one call.
  void check_pixels(Decoder& decoder) {
    std::vector<RegionRequest> requests;
    for (size_t i = 0; i < count_; ++i) {
      const File& file = files_[i];
      requests.push_back({file.bytes, file.header, {0, 0, file.header.width, file.header.height}});
      requests.push_back({file.bytes, file.header, file.crop});
    }
    size_t taken = 0;
    decoder.decode(requests, [&](size_t i, const Status& status, base::Rows& rows) {
      ++taken;
      const File& file = files_[i / 2];
      // A crop may not meet the damage.
      EXPECT_TRUE(status.ok() == file.good || (!file.good && i % 2 == 1)) << file.name;
      if (file.good && status.ok()) {
        // Takes whole images as pixels, and crops as rows.
        base::Pixels pixels{rows.width(), rows.height(), {}};
        if (i % 2 == 0) {
          rows.move_to(&pixels);
        } else {
          pixels.rgb = interleaved(rows);
        }
        EXPECT_TRUE(equal(pixels, file.expected, requests[i].region)) << file.name << " #" << i % 2;
      }
    });
    EXPECT_EQ(taken, requests.size());
  }

  static bool equal(const base::Pixels& part, const base::Pixels& whole, const base::Rect& region) {
    if (part.width != region.width || part.height != region.height) return false;
    const size_t bytes = size_t{region.width} * 3;
    for (uint32_t y = 0; y < region.height; ++y) {
      const uint8_t* const expected =
          whole.rgb.data() + (size_t{region.y + y} * whole.width + region.x) * 3;
      if (std::memcmp(part.rgb.data() + y * bytes, expected, bytes) != 0) return false;
    }
    return true;
  }

  std::vector<std::unique_ptr<Ours>> ours_;
  TurboDecoder turbo_;
  std::vector<File> files_;
  size_t count_ = 0;  // used entries of files_; unused ones keep their memory
};

}  // namespace forebay::jpeg
