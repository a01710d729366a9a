// Clock cycles of each stage from bytes to a tensor, on one core: thread CPU time, the best of the
// rounds for each image, times the clock rate.
//
// These stages are measured by calls of their own: reading coefficients (including unstuffing, sums
// of DC and storing); the inverse DCT (whose coefficients come from the second-level cache here,
// from the first-level cache in the decoder); resizing; normalising; and splitting interleaved
// pixels into channels, which is needed only after libjpeg-turbo. Other stages are differences of
// two calls: upsampling and colour = all rows - samples; entropy decoding inside the decoder, which
// stores no coefficients = samples - inverse DCT.
#include <algorithm>
#include <span>

#include "image/transform/crop.h"
#include "image/transform/resize.h"
#include "image/transform/tensor.h"
#include "jpeg/rewrite/coefficient_reader.h"
#include "lib/clock.h"
#include "lib/files.h"
#include "lib/jpeg_work.h"

namespace forebay::bench {
namespace {

using base::Bytes;
using base::Pixels;
using base::Rect;

constexpr image::Size kSize{224, 224};

// Seconds summed over all images so far, and the amount of work.
struct Totals {
  double coefficients = 0;
  double idct = 0;
  double samples = 0;
  double rows = 0;
  double rgb = 0;
  double split = 0;
  double resize = 0;
  double normalise = 0;
  uint64_t symbols = 0;  // Huffman codes
  uint64_t blocks = 0;
  uint64_t pixels = 0;   // of whole images
  uint64_t inputs = 0;   // pixels of crops
  uint64_t outputs = 0;  // pixels of tensors
};

template <class Call>
double best_of(int rounds, const Call& call) {
  Shortest best;
  for (int round = 0; round < rounds; ++round) {
    const double start = thread_seconds();
    call();
    best.add(thread_seconds() - start);
  }
  return best.seconds();
}

// Returns the number of codes of a block: DC, AC coefficients, runs of 16 zeros, the end (T.81
// F.1.2).
uint64_t count_symbols(std::span<const int16_t, 64> block) {
  uint64_t symbols = 1;
  size_t run = 0;
  for (size_t k = 1; k < 64; ++k) {
    if (block[k] == 0) {
      ++run;
      continue;
    }
    symbols += 1 + run / 16;
    run = 0;
  }
  return symbols + (run > 0 ? 1 : 0);
}

// The inverse DCT of a whole image, in the same runs as in the decoder: the neighbouring MCUs of a
// restart segment.
class Transform {
 public:
  Transform(const jpeg::Header& header, const jpeg::Coefficients& from)
      : header_(header), from_(from), components_(jpeg::component_blocks(header)) {
    for (size_t c = 0; c < components_.size(); ++c) {
      dequantisers_.push_back(jpeg::make_dequantiser(from.quant[c]));
      mcu_blocks_ += components_[c].across * components_[c].down;
    }
    // Room for one row of blocks of a component is enough, because nobody looks at the samples.
    stride_ = size_t{header.mcus_across()} * 4 * 8 + 64;
    samples_.resize(stride_ * 8);
  }

  double best(int rounds) {
    Shortest best;
    for (int round = 0; round < rounds; ++round) {
      coefficients_ = from_.blocks;  // because the transform leaves zeros
      const double start = thread_seconds();
      run();
      best.add(thread_seconds() - start);
    }
    return best.seconds();
  }

 private:
  void run() {
    const uint32_t across = header_.mcus_across();
    for (uint32_t mcu = 0; mcu < header_.mcu_count();) {
      const uint32_t segment_end = mcu + header_.restart_interval - mcu % header_.restart_interval;
      const uint32_t row_end = mcu + across - mcu % across;
      const uint32_t end = std::min({segment_end, row_end, header_.mcu_count()});
      transform(mcu, end - mcu);
      mcu = end;
    }
  }

  void transform(uint32_t mcu, uint32_t count) {
    int16_t* block = coefficients_.data() + size_t{mcu} * mcu_blocks_ * 64;
    const uint32_t column = mcu % header_.mcus_across();
    for (size_t c = 0; c < components_.size(); ++c) {
      const uint32_t across = components_[c].across;
      for (uint32_t y = 0; y < components_[c].down; ++y, block += size_t{across} * 64) {
        jpeg::transform_row({.coefficients = block,
                             .across = across,
                             .mcu_stride = size_t{mcu_blocks_} * 64,
                             .count = count * across,
                             .samples = samples_.data() + size_t{column} * across * 8,
                             .stride = stride_},
                            dequantisers_[c]);
      }
    }
  }

  const jpeg::Header& header_;
  const jpeg::Coefficients& from_;
  std::vector<jpeg::ComponentBlocks> components_;
  std::vector<jpeg::Dequantiser> dequantisers_;
  uint32_t mcu_blocks_ = 0;
  std::vector<int16_t> coefficients_;
  base::ByteVector samples_;
  size_t stride_ = 0;
};

// Rows that exist already, with separate channels.
class CopiedRows final : public base::Rows {
 public:
  void copy(base::Rows& rows) {
    width_ = rows.width();
    height_ = rows.height();
    stride_ = width_ + base::kPlanarPadding;
    bytes_.resize(stride_ * 3 * height_);
    for (uint32_t y = 0; y < height_; ++y) {
      const base::PlanarRow from = rows.row(y);
      for (size_t c = 0; c < 3; ++c) std::copy_n(from[c], width_, at(y, c));
    }
  }
  uint32_t width() const override { return width_; }
  uint32_t height() const override { return height_; }
  base::PlanarRow row(uint32_t y) override { return {at(y, 0), at(y, 1), at(y, 2)}; }
  void move_to(Pixels*) override { stop("rows that are copied are not moved"); }

 private:
  uint8_t* at(uint32_t y, size_t channel) { return bytes_.data() + (3 * y + channel) * stride_; }

  uint32_t width_ = 0;
  uint32_t height_ = 0;
  size_t stride_ = 0;
  base::ByteVector bytes_;
};

class StageClock {
 public:
  explicit StageClock(int rounds) : rounds_(rounds) {}

  // Measures a file. Does nothing for files without restart markers: they could not be rewritten,
  // or are tiny.
  void measure(Bytes file, base::Random random) {
    const auto header = jpeg::parse_header(file);
    const auto scan = header ? jpeg::read_scan(file, *header) : std::nullopt;
    if (!scan || header->restart_interval == 0) return;
    const Rect whole{0, 0, header->width, header->height};
    totals_.coefficients += best_of(rounds_, [&] {
      if (!reader_.read(file, *header, &coefficients_).ok()) stop("damaged");
    });
    totals_.idct += Transform(*header, coefficients_).best(rounds_);
    totals_.samples += best_of(rounds_, [&] { make_samples(*scan, file, whole); });
    totals_.rows += best_of(rounds_, [&] {
      decode(file, *header, whole, [](base::Rows& rows) {
        for (uint32_t y = 0; y < rows.height(); ++y) rows.row(y);
      });
    });
    Pixels pixels;
    totals_.rgb += best_of(rounds_, [&] {
      decode(file, *header, whole, [&](base::Rows& rows) { rows.move_to(&pixels); });
    });
    count(*header);
    const Rect crop = image::draw_crop({}, header->width, header->height, random);
    decode(file, *header, crop, [&](base::Rows& rows) { crop_.copy(rows); });
    finish();
    measure_split(file, *header, crop);
  }

  void report(const Report& to) const {
    const double rate = cycles_per_second();
    const auto put = [&](const char* name, double seconds, uint64_t count) {
      to(std::string("cycles_") + name, seconds * rate / static_cast<double>(count));
    };
    put("coefficients_per_symbol", totals_.coefficients, totals_.symbols);
    put("coefficients_per_block", totals_.coefficients, totals_.blocks);
    put("coefficients_per_pixel", totals_.coefficients, totals_.pixels);
    const double entropy = totals_.samples - totals_.idct;
    put("entropy_per_symbol", entropy, totals_.symbols);
    put("entropy_per_block", entropy, totals_.blocks);
    put("entropy_per_pixel", entropy, totals_.pixels);
    put("idct_per_block", totals_.idct, totals_.blocks);
    put("idct_per_pixel", totals_.idct, totals_.pixels);
    put("colour_per_pixel", totals_.rows - totals_.samples, totals_.pixels);
    put("rows_per_pixel", totals_.rows, totals_.pixels);
    put("rgb_per_pixel", totals_.rgb, totals_.pixels);
    put("split_per_pixel", totals_.split, totals_.inputs);
    put("resize_per_pixel", totals_.resize, totals_.outputs);
    put("normalise_per_pixel", totals_.normalise, totals_.outputs);
  }

 private:
  void make_samples(const jpeg::Scan& scan, Bytes file, const Rect& region) {
    batch_.begin();
    if (batch_.add(scan, file, region, true) != jpeg::RegionBatch::Added::kYes) {
      stop("a packed file is not decoded our own way");
    }
    batch_.run();
    if (!batch_.good(0)) stop("damaged");
  }

  template <class Use>
  void decode(Bytes file, const jpeg::Header& header, const Rect& region, const Use& use) {
    const jpeg::RegionRequest request{file, header, region};
    decoder_.decode({&request, 1}, [&](size_t, const base::Status& status, base::Rows& rows) {
      if (!status.ok()) stop(status.message());
      use(rows);
    });
  }

  void count(const jpeg::Header& header) {
    const auto& blocks = coefficients_.blocks;
    for (size_t at = 0; at < blocks.size(); at += 64) {
      totals_.symbols += count_symbols(std::span<const int16_t, 64>(blocks.data() + at, 64));
    }
    totals_.blocks += blocks.size() / 64;
    totals_.pixels += uint64_t{header.width} * header.height;
  }

  void finish() {
    const Rect all{0, 0, kSize.width, kSize.height};
    totals_.resize += best_of(rounds_, [&] {
      resizer_.resize(crop_, image::whole(crop_), kSize, all,
                      [](uint32_t, const base::PlanarRow&) {});
    });
    base::PixelRows interleaved;
    resizer_.resize(crop_, image::whole(crop_), kSize, all, &interleaved.pixels);
    resized_.copy(interleaved);
    tensor_.resize(writer_.sample_bytes(kSize));
    totals_.normalise += best_of(rounds_, [&] { writer_.write(resized_, false, tensor_.data()); });
    totals_.outputs += uint64_t{kSize.width} * kSize.height;
  }

  void measure_split(Bytes file, const jpeg::Header& header, const Rect& crop) {
    base::PixelRows rows;
    decode(file, header, crop, [&](base::Rows& decoded) { decoded.move_to(&rows.pixels); });
    totals_.split += best_of(rounds_, [&] {
      for (uint32_t y = 0; y < rows.height(); ++y) rows.row(y);
    });
    totals_.inputs += uint64_t{crop.width} * crop.height;
  }

  const int rounds_;
  Totals totals_;
  jpeg::CoefficientReader reader_;
  jpeg::Coefficients coefficients_;
  jpeg::RegionBatch batch_{std::nullopt};
  jpeg::Decoder decoder_;
  CopiedRows crop_;
  image::Resizer resizer_;
  CopiedRows resized_;
  image::TensorWriter writer_{image::TensorOptions{}};
  base::ByteVector tensor_;
};

}  // namespace

void measure_stages(const JpegWork& work, int rounds, const Report& report) {
  StageClock clock(rounds);
  for (size_t i = 0; i < work.packed.size(); ++i) clock.measure(work.packed[i], random_of(i));
  clock.report(report);
}

}  // namespace forebay::bench
