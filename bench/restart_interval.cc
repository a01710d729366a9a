// deps: forebay_image forebay_io PkgConfig::hwy nlohmann_json::nlohmann_json
// The curves that the default restart intervals are based on: what an interval costs in bytes, what
// it saves when only a crop is read, and how long decoding takes.
//    bench_restart_interval FOLDER [CROPS [ROUNDS]]
// Each JPEG is rewritten with shared and with private tables and with each interval in turn. Bytes
// are shares of the source files' bytes: the rewritten file, its index, and what random resized
// crops need (torchvision's default distribution, the same crops for every interval). Reads are the
// separate byte ranges of a crop. Times are microseconds of thread CPU time to RGB, of the whole
// image and of a crop, with the machine's best instruction set and with AVX2; the best of the
// rounds for each image. One crop of each file is composed from its own bytes and compared with a
// full decode.
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "image/transform/crop.h"
#include "jpeg/decode.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/keep_to.h"
#include "lib/clock.h"
#include "lib/files.h"
#include "lib/machine.h"

namespace {

using namespace forebay;
using base::Bytes;
using base::ByteVector;
using base::Rect;
using bench::stop;

// The index stores a length and a check of 2 bytes each for a segment (docs/format.md).
constexpr uint64_t kIndexBytesEach = 4;
constexpr uint32_t kSmallMcus = 64;  // smaller images have no restart markers by default
constexpr std::array<const char*, 6> kIntervals = {"2", "4", "8", "16", "row", "none"};
constexpr std::array kTables = {jpeg::TableMode::kShared, jpeg::TableMode::kPrivate};

uint32_t interval_mcus(size_t interval, const jpeg::Header& header) {
  if (interval == 4) return header.mcus_across();
  return interval == 5 ? 0 : 2U << interval;
}

// Sums over images. For crops, the mean over the crops of an image is added.
struct Sums {
  double source = 0;  // bytes
  double file = 0;
  double index = 0;
  double crop = 0;
  double reads = 0;
  std::array<double, 2> image_seconds{};  // best, AVX2
  std::array<double, 2> crop_seconds{};
  uint64_t images = 0;
};
using Curve = std::array<Sums, kIntervals.size()>;
// The curves of each chroma ("subsampled", "full"), in the order of kTables.
using Curves = std::map<std::string, std::array<Curve, kTables.size()>>;

// The decoders that are compared, each with the instruction set that it may use.
class Kernels {
 public:
  static constexpr jpeg::EntropyKernel kKernels[] = {jpeg::EntropyKernel::kAvx512,
                                                     jpeg::EntropyKernel::kAvx2};
  static constexpr size_t kCount = std::size(kKernels);
  Kernels() {
    for (size_t kernel = 0; kernel < kCount; ++kernel) {
      jpeg::keep_to(kKernels[kernel]);
      decoders_[kernel].emplace();
    }
  }
  // Selects the decoder that is used until the next call.
  jpeg::Decoder& choose(size_t kernel) {
    jpeg::keep_to(kKernels[kernel]);
    return *decoders_[kernel];
  }

 private:
  std::array<std::optional<jpeg::Decoder>, kCount> decoders_;
};

void check_crop(const jpeg::Rewritten& image, const Rect& crop, jpeg::Decoder& decoder) {
  const auto part = jpeg::extract_region(image.index, image.file, crop);
  if (!part) stop(part.error().message());
  base::Pixels from_part;
  base::Pixels from_all;
  if (!decoder.decode(*part, crop, &from_part).ok() ||
      !decoder.decode(image.file, crop, &from_all).ok() || from_part.rgb != from_all.rgb) {
    stop("a crop from its own bytes differs from the full decode's");
  }
}

void add_bytes(const jpeg::Rewritten& image, const std::vector<Rect>& crops, Sums* sums) {
  const auto count = static_cast<double>(crops.size());
  sums->file += static_cast<double>(image.file.size());
  sums->index += static_cast<double>(image.index.segments.size() * kIndexBytesEach);
  const Bytes header = Bytes(image.file).first(image.index.header_bytes);
  for (const Rect& crop : crops) {
    const auto plan = jpeg::plan_region(image.index, header, crop);
    if (!plan) stop(plan.error().message());
    uint64_t bytes = header.size();
    for (const jpeg::ByteRange& range : plan->places) bytes += range.length;
    sums->crop += static_cast<double>(bytes) / count;
    sums->reads += static_cast<double>(plan->places.size()) / count;
  }
}

double seconds_of(jpeg::Decoder& decoder, Bytes file, const std::vector<Rect>& regions) {
  base::Pixels pixels;
  const double start = bench::thread_seconds();
  for (const Rect& region : regions) {
    if (!decoder.decode(file, region, &pixels).ok()) stop("damaged");
  }
  return (bench::thread_seconds() - start) / static_cast<double>(regions.size());
}

// Measures everything in turn in each round.
void add_times(const std::vector<jpeg::Rewritten>& images, const std::vector<Rect>& crops,
               int rounds, Kernels& kernels, const std::vector<Sums*>& sums) {
  struct Times {
    bench::Shortest image;
    bench::Shortest crop;
  };
  std::vector<std::array<Times, Kernels::kCount>> times(images.size());
  const jpeg::Header& header = images[0].header;
  const std::vector<Rect> whole{{0, 0, header.width, header.height}};
  for (int round = 0; round < rounds; ++round) {
    for (size_t kernel = 0; kernel < Kernels::kCount; ++kernel) {
      jpeg::Decoder& decoder = kernels.choose(kernel);
      seconds_of(decoder, images[0].file,
                 whole);  // warms up, so that the first image is not the only cold one
      for (size_t i = 0; i < images.size(); ++i) {
        times[i][kernel].image.add(seconds_of(decoder, images[i].file, whole));
        times[i][kernel].crop.add(seconds_of(decoder, images[i].file, crops));
      }
    }
  }
  for (size_t i = 0; i < images.size(); ++i) {
    for (size_t kernel = 0; kernel < Kernels::kCount; ++kernel) {
      sums[i]->image_seconds[kernel] += times[i][kernel].image.seconds();
      sums[i]->crop_seconds[kernel] += times[i][kernel].crop.seconds();
    }
  }
}

void measure(Bytes source, uint64_t number, size_t crop_count, int rounds, Kernels& kernels,
             Curves* curves) {
  const auto first = jpeg::rewrite(source);
  if (!first || first->header.mcu_count() < kSmallMcus) return;
  const jpeg::Header& header = first->header;
  const bool is_full = header.subsampling() == jpeg::Subsampling::k444 ||
                       header.subsampling() == jpeg::Subsampling::kGray;
  auto& of_tables = (*curves)[is_full ? "full" : "subsampled"];
  base::Random random(1, base::Purpose::kTest, 0, number);
  std::vector<Rect> crops;
  for (size_t i = 0; i < crop_count; ++i) {
    crops.push_back(image::draw_crop({}, header.width, header.height, random));
  }
  std::vector<jpeg::Rewritten> images;
  std::vector<Sums*> sums;
  for (size_t t = 0; t < kTables.size(); ++t) {
    for (size_t i = 0; i < kIntervals.size(); ++i) {
      images.push_back(jpeg::rewrite(source, {.tables = kTables[t],
                                              .restart_interval = interval_mcus(i, header)})
                           .value());
      sums.push_back(&of_tables[t][i]);
      ++sums.back()->images;
      sums.back()->source += static_cast<double>(source.size());
      add_bytes(images.back(), crops, sums.back());
      check_crop(images.back(), crops[0], kernels.choose(0));
    }
  }
  add_times(images, crops, rounds, kernels, sums);
}

void print(const std::string& name, const Curve& curve, nlohmann::ordered_json* result) {
  fmt::print("{}, {} images\n{:>10}{:>10}{:>9}{:>14}{:>7}{:>10}{:>8}{:>9}{:>8}\n", name,
             curve[0].images, "interval", "file", "index", "crop's bytes", "reads", "image us",
             "AVX2", "crop us", "AVX2");
  for (size_t i = 0; i < kIntervals.size(); ++i) {
    const Sums& sums = curve[i];
    const auto put = [&](const char* figure, double value) {
      (*result)[fmt::format("{}_{}_{}", name, kIntervals[i], figure)] = value;
      return value;
    };
    const auto us = [&](double seconds) {
      return seconds / static_cast<double>(sums.images) * 1e6;
    };
    fmt::print(
        "{:>10}{:>8.2f} %{:>7.2f} %{:>12.2f} %{:>7.1f}{:>10.1f}{:>8.1f}{:>9.1f}{:>8.1f}\n",
        kIntervals[i], 100 * put("file", sums.file / sums.source), 100 * sums.index / sums.source,
        100 * put("crop_bytes", sums.crop / sums.source),
        sums.reads / static_cast<double>(sums.images), put("image_us", us(sums.image_seconds[0])),
        put("image_us_avx2", us(sums.image_seconds[1])), put("crop_us", us(sums.crop_seconds[0])),
        put("crop_us_avx2", us(sums.crop_seconds[1])));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) stop("usage: bench_restart_interval FOLDER [CROPS [ROUNDS]]");
  const size_t crops = argc > 2 ? static_cast<size_t>(std::max(1, std::atoi(argv[2]))) : 8;
  const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
  Kernels kernels;
  Curves curves;
  uint64_t number = 0;
  for (const ByteVector& file : bench::read_files(argv[1], 1'000'000)) {
    if (jpeg::is_jpeg(file)) measure(file, ++number, crops, rounds, kernels, &curves);
  }
  if (curves.empty()) stop("no JPEG of 64 MCUs or more");
  nlohmann::ordered_json result{{"machine", bench::machine()}};
  for (const auto& [name, of_tables] : curves) {
    print(name + "_shared", of_tables[0], &result);
    print(name + "_private", of_tables[1], &result);
  }
  fmt::print("{}\n", result.dump());
  return 0;
}
