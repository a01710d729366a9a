// deps: bench_jpeg_work forebay_io PkgConfig::hwy nlohmann_json::nlohmann_json
// How fast one core decodes, reads coefficients and rewrites, compared with libjpeg-turbo doing the
// same:
//    bench_jpeg PHOTOS CIFAR [ROUNDS]
// ROUNDS (2) is the number of undisturbed rounds that each side of a comparison gets for each group
// of images. Names that end in _x are libjpeg-turbo's time / ours (lib/jpeg_compare.cc). A crop is
// a random resized crop of 224 pixels, mirrored at random, normalised to float32; libjpeg-turbo
// skips rows and columns, and our own resize follows on both sides. Names that begin with cycles_
// are about a stage (lib/jpeg_stages.cc). The suffix "_avx2" means our code restricted to AVX2,
// "_portable" also with the portable entropy kernel; libjpeg-turbo always keeps its SIMD code.
// two_threads_x: crops in a second of wall time, two threads / one. bytes_touched_share: the share
// of a packed file that the storage layer reads for a crop, the mean over crops.
// rewrite_bytes_share: the bytes of rewritten files / originals; also for libjpeg-turbo.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "image/prepare.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/keep_to.h"
#include "lib/clock.h"
#include "lib/files.h"
#include "lib/jpeg_work.h"
#include "lib/libjpeg.h"
#include "lib/machine.h"

namespace {

using namespace forebay;
using base::ByteVector;
using bench::JpegWork;
using bench::random_of;
using bench::stop;

constexpr size_t kCropsAtOnce = 50;  // crops that are timed together
// Two cores are undisturbed at the same time less often than one.
constexpr int kThreadRounds = 10;
// Measuring stages does not wait for an undisturbed core.
constexpr int kStageRounds = 3;
constexpr image::Transform kTransform{};
// The suffixes of figures' names.
constexpr std::pair<jpeg::EntropyKernel, const char*> kKernels[] = {
    {jpeg::EntropyKernel::kAvx512, ""},
    {jpeg::EntropyKernel::kAvx2, "_avx2"},
    {jpeg::EntropyKernel::kPortable, "_portable"}};

ByteVector pack(const ByteVector& file, jpeg::TableMode tables) {
  const auto rewritten = jpeg::rewrite(file, {.tables = tables, .restart_interval = {}});
  return rewritten ? rewritten->file : file;
}

JpegWork read_work(const char* photos, const char* small) {
  JpegWork work;
  work.originals = bench::read_files(photos, 500);
  for (const ByteVector& file : work.originals) {
    work.packed.push_back(pack(file, jpeg::TableMode::kShared));
    work.packed_private.push_back(pack(file, jpeg::TableMode::kPrivate));
  }
  for (const ByteVector& file : bench::read_files(small, 2048)) {
    work.small.push_back(pack(file, jpeg::TableMode::kCheapest));
  }
  return work;
}

// The state of one thread. Crops files [first, last) in turn, starting `shift` files later.
class Cropper {
 public:
  void run(const std::vector<ByteVector>& files, size_t first, size_t last, size_t shift) {
    const size_t count = last - first;
    for (size_t i = 0; i < count; ++i) {
      const size_t number = first + (i + shift) % count;
      const auto status = preparer_.prepare(files[number], random_of(number), out_.data());
      if (!status.ok()) stop(status.message());
    }
  }

 private:
  image::Preparer preparer_{kTransform, image::TensorOptions{}};
  ByteVector out_ = ByteVector(preparer_.sample_bytes());
};

// Two threads do twice the work of one: each makes all crops of a group, and they start half a
// group apart.
double two_threads(const std::vector<ByteVector>& files, int rounds) {
  Cropper here;
  Cropper there;
  double one_sum = 0;
  double two_sum = 0;
  for (size_t first = 0; first < files.size(); first += kCropsAtOnce) {
    const size_t last = std::min(first + kCropsAtOnce, files.size());
    bench::Shortest one;
    bench::Shortest two;
    for (int round = 0; round < rounds; ++round) {
      const double start = bench::wall_seconds();
      here.run(files, first, last, 0);
      const double middle = bench::wall_seconds();
      std::thread other([&] { there.run(files, first, last, (last - first) / 2); });
      here.run(files, first, last, 0);
      other.join();
      const double end = bench::wall_seconds();
      one.add(middle - start);
      two.add(end - middle);
    }
    one_sum += one.seconds();
    two_sum += two.seconds();
  }
  return 2 * one_sum / two_sum;
}

// Returns the share of a packed file that a crop needs: the header and its segments.
double touched_share(const jpeg::Rewritten& image, const base::Random& random) {
  const auto drawn = image::draw(kTransform, {image.header.width, image.header.height}, random);
  const base::Bytes header = base::Bytes(image.file).first(image.index.header_bytes);
  const auto plan = jpeg::plan_region(image.index, header, drawn.value().cut.region);
  if (!plan) stop(plan.error().message());
  uint64_t bytes = header.size();
  for (const jpeg::ByteRange& range : plan->places) bytes += range.length;
  return static_cast<double>(bytes) / static_cast<double>(image.file.size());
}

// Rewrites like `forebay pack` does by default. A file that cannot be rewritten is read whole.
void measure_bytes(const std::vector<ByteVector>& originals, const bench::Report& report) {
  bench::Libjpeg libjpeg;
  double touched = 0;
  double before = 0;
  double ours = 0;
  double theirs = 0;
  for (size_t i = 0; i < originals.size(); ++i) {
    const auto image = jpeg::rewrite(originals[i]);
    touched += image ? touched_share(*image, random_of(i)) : 1;
    if (!image) continue;
    before += static_cast<double>(originals[i].size());
    ours += static_cast<double>(image->file.size());
    theirs += static_cast<double>(libjpeg.transcode(originals[i], image->header.restart_interval));
  }
  report("bytes_touched_share", touched / static_cast<double>(originals.size()));
  report("rewrite_bytes_share", ours / before);
  report("rewrite_bytes_share_turbo", theirs / before);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) stop("usage: bench_jpeg PHOTOS CIFAR [ROUNDS]");
  const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 2;
  const JpegWork work = read_work(argv[1], argv[2]);
  nlohmann::ordered_json figures{{"machine", bench::machine()}};
  const auto report_as = [&](const std::string& suffix) {
    return [&figures, suffix](const std::string& name, double figure) {
      fmt::print("{:<40}{:>8.3f}\n", name + suffix, figure);
      figures[name + suffix] = figure;
    };
  };
  const auto report = report_as("");
  measure_bytes(work.originals, report);
  report("two_threads_x", two_threads(work.packed, rounds * kThreadRounds));
  report("clock_ghz", bench::cycles_per_second() * 1e-9);
  const auto best = jpeg::best_entropy_kernel();
  for (const auto& [kernel, suffix] : kKernels) {
    if (kernel > best) continue;
    jpeg::keep_to(kernel);
    // Uses a new thread, because each thread keeps the instruction set that it once chose.
    std::thread([&] {
      bench::compare_jpeg(work, rounds, report_as(suffix));
      bench::measure_stages(work, rounds * kStageRounds, report_as(suffix));
    }).join();
  }
  fmt::print("{}\n", figures.dump());
  return 0;
}
