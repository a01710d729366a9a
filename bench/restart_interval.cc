// deps: forebay_image forebay_io nlohmann_json::nlohmann_json
// The curve behind the default restart intervals: what an interval costs in bytes, and what it
// saves when only a crop is read.
//   bench_restart_interval FOLDER [CROPS]
// For each JPEG and interval: the rewritten file's bytes (the cheapest of shared and private
// tables), the index's, and the bytes that random resized crops need (torchvision's default
// distribution, the same crops for every interval). All as shares of the source files. `reads`:
// separate byte ranges a crop. One crop of each file is composed and compared with a full decode.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "image/crop.h"
#include "jpeg/decode.h"
#include "jpeg/rewrite.h"
#include "lib/machine.h"

namespace {

using namespace forebay;
using base::Bytes;
using base::ByteVector;

// The index holds a length and a check of 2 bytes each for a segment (docs/format.md).
constexpr uint64_t kIndexBytesEach = 4;
constexpr uint32_t kIntervals[] = {1, 2, 4, 8, 16, 32, 64, 0};  // 0: no restart markers
constexpr uint32_t kSmallMcus = 64;                             // below: none by default

struct Sums {
  uint64_t source = 0;
  uint64_t file = 0;
  uint64_t index = 0;
  double read = 0;  // bytes of a crop, the mean over its crops, summed over the files
  double reads = 0;
  uint64_t files = 0;
};
using Curve = std::map<uint32_t, Sums>;

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "bench_restart_interval: {}\n", why);
  std::exit(1);
}

void check_crop(const jpeg::Rewritten& image, const base::Rect& crop) {
  const auto part = jpeg::extract_region(image.index, image.file, crop);
  if (!part) stop(part.error().message());
  jpeg::Decoder decoder;
  base::Pixels from_part;
  base::Pixels from_all;
  if (!decoder.decode(*part, crop, &from_part).ok() ||
      !decoder.decode(image.file, crop, &from_all).ok() || from_part.rgb != from_all.rgb) {
    stop("a crop from its own bytes differs from the full decode's");
  }
}

void measure(Bytes source, uint64_t number, uint64_t crops, Curve* subsampled, Curve* full) {
  for (const uint32_t interval : kIntervals) {
    const auto image = jpeg::rewrite(source, {.restart_interval = interval});
    if (!image || image->header.mcu_count() < kSmallMcus) return;
    const jpeg::Header& header = image->header;
    const bool is_full = header.subsampling() == jpeg::Subsampling::k444 ||
                         header.subsampling() == jpeg::Subsampling::kGray;
    Sums& sums = (is_full ? *full : *subsampled)[interval];
    ++sums.files;
    sums.source += source.size();
    sums.file += image->file.size();
    sums.index += image->index.segments.size() * kIndexBytesEach;
    const Bytes header_bytes = Bytes(image->file).first(image->index.header_bytes);
    base::Random random(1, base::Purpose::kTest, 0, number);
    for (uint64_t i = 0; i < crops; ++i) {
      const base::Rect crop = image::draw_crop({}, header.width, header.height, random);
      const auto plan = jpeg::plan_region(image->index, header_bytes, crop);
      if (!plan) stop(plan.error().message());
      uint64_t bytes = header_bytes.size();
      for (const jpeg::ByteRange& range : plan->places) bytes += range.length;
      sums.read += static_cast<double>(bytes) / static_cast<double>(crops);
      sums.reads += static_cast<double>(plan->places.size()) / static_cast<double>(crops);
      if (i == 0) check_crop(*image, crop);
    }
  }
}

void print(const char* name, const Curve& curve, nlohmann::json* result) {
  if (curve.empty()) return;
  fmt::print("{}, {} images\n  interval     file    index  a crop's bytes  reads\n", name,
             curve.begin()->second.files);
  for (const uint32_t interval : kIntervals) {
    const Sums& sums = curve.at(interval);
    const auto share = [&](auto bytes) {
      return static_cast<double>(bytes) / static_cast<double>(sums.source);
    };
    fmt::print("  {:>8}  {:6.2f} %  {:5.2f} %        {:6.2f} %  {:5.1f}\n",
               interval == 0 ? "none" : std::to_string(interval), 100 * share(sums.file),
               100 * share(sums.index), 100 * share(sums.read),
               sums.reads / static_cast<double>(sums.files));
    (*result)[fmt::format("{}_{}_file", name, interval)] = share(sums.file);
    (*result)[fmt::format("{}_{}_crop", name, interval)] = share(sums.read);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) stop("usage: bench_restart_interval FOLDER [CROPS]");
  const uint64_t crops = argc > 2 ? static_cast<uint64_t>(std::max(1, std::atoi(argv[2]))) : 8;
  Curve subsampled;
  Curve full;
  uint64_t number = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const ByteVector source{std::istreambuf_iterator<char>(in), {}};
    if (jpeg::is_jpeg(source)) measure(source, ++number, crops, &subsampled, &full);
  }
  if (subsampled.empty() && full.empty()) stop("no JPEG of 64 MCUs or more");
  nlohmann::json result = {{"machine", bench::machine()}};
  print("subsampled", subsampled, &result);
  print("full", full, &result);
  fmt::print("{}\n", result.dump());
  return 0;
}
