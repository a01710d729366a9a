// deps: forebay_image forebay_io JPEG::JPEG PkgConfig::hwy nlohmann_json::nlohmann_json
// How fast one core decodes, and reads coefficients, against libjpeg-turbo doing the same work:
//   bench_jpeg PHOTOS CIFAR [ROUNDS]
// Image by image in turn, thread CPU time, the best of the rounds for each; the results compared.
// A crop is a random resized one of 224 pixels, flipped every second time, normalised to float32;
// libjpeg-turbo skips rows and columns, and our own resize follows on both sides. Figures: their
// time / ours; with "_portable", our entropy decoding without AVX-512 and the rest with AVX2.
#include <hwy/targets.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
// clang-format off: jpeglib.h needs cstdio before it
#include <jpeglib.h>
// clang-format on

#include "image/prepare.h"
#include "jpeg/coefficient_reader.h"
#include "jpeg/decode.h"
#include "jpeg/rewrite.h"
#include "lib/machine.h"

namespace {

using namespace forebay;
using base::Bytes;
using base::ByteVector;
using base::Pixels;
using base::Rect;

constexpr uint32_t kSize = 224;
constexpr size_t kSmallTogether = 64;  // images of a batch

double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "bench_jpeg: {}\n", why);
  std::exit(1);
}

// What all coefficients of an image come to, whatever their order.
struct Sums {
  int64_t sum = 0;
  int64_t squares = 0;
  void add(const int16_t* block) {
    for (size_t k = 0; k < 64; ++k) {
      sum += block[k];
      squares += int64_t{block[k]} * block[k];
    }
  }
  bool operator==(const Sums&) const = default;
};

Sums sums_of(const jpeg::Coefficients& coefficients, const jpeg::Header& header) {
  Sums sums;
  const int16_t* block = coefficients.blocks.data();
  const auto components = jpeg::component_blocks(header);
  for (uint32_t mcu = 0; mcu < header.mcu_count(); ++mcu) {
    const uint32_t mcu_x = mcu % header.mcus_across();
    const uint32_t mcu_y = mcu / header.mcus_across();
    for (const auto& component : components) {
      for (uint32_t b = 0; b < component.across * component.down; ++b, block += 64) {
        const uint32_t x = mcu_x * component.across + b % component.across;
        const uint32_t y = mcu_y * component.down + b / component.across;
        if (x < component.width && y < component.height) sums.add(block);
      }
    }
  }
  return sums;
}

// libjpeg-turbo, its object kept between images. Errors end the program.
class Turbo {
 public:
  Turbo() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  ~Turbo() { jpeg_destroy_decompress(&info_); }
  Turbo(const Turbo&) = delete;
  Turbo& operator=(const Turbo&) = delete;

  // Reads the coefficients; the sums, when asked for.
  void coefficients(Bytes file, Sums* sums) {
    jpeg_mem_src(&info_, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info_, TRUE);
    jvirt_barray_ptr* arrays = jpeg_read_coefficients(&info_);
    for (int c = 0; sums != nullptr && c < info_.num_components; ++c) {
      const jpeg_component_info& component = info_.comp_info[c];
      for (JDIMENSION y = 0; y < component.height_in_blocks; ++y) {
        const JBLOCKROW row = *info_.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info_),
                                                             arrays[c], y, 1, FALSE);
        for (JDIMENSION x = 0; x < component.width_in_blocks; ++x) sums->add(row[x]);
      }
    }
    jpeg_abort_decompress(&info_);
  }

  // Exact where its cropping is: chroma at the sides of subsampled crops may differ by a little.
  void decode(Bytes file, const std::optional<Rect>& region, Pixels* out) {
    jpeg_mem_src(&info_, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    const Rect rect = region.value_or(Rect{0, 0, info_.image_width, info_.image_height});
    JDIMENSION left = rect.x;
    JDIMENSION width = rect.width;
    if (width != info_.image_width) jpeg_crop_scanline(&info_, &left, &width);
    if (rect.y > 0) jpeg_skip_scanlines(&info_, rect.y);
    out->reset(rect.width, rect.height);
    row_.resize(size_t{info_.output_width} * 3);
    for (uint32_t y = 0; y < rect.height; ++y) {
      uint8_t* const to = out->rgb.data() + size_t{y} * rect.width * 3;
      JSAMPROW rows[1] = {width == rect.width ? to : row_.data()};
      jpeg_read_scanlines(&info_, rows, 1);
      if (rows[0] != to) std::copy_n(row_.data() + (rect.x - left) * 3, rect.width * 3, to);
    }
    jpeg_abort_decompress(&info_);
  }

 private:
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct info_{};
  ByteVector row_;
};

struct Job {
  Bytes file;
  std::optional<Rect> region;
};

// What both sides do behind decoding.
class Finish {
 public:
  void operator()(base::Rows& rows, bool flip, ByteVector* out) {
    out->resize(writer_.sample_bytes({kSize, kSize}));
    resizer_.resize(rows, {kSize, kSize}, {0, 0, kSize, kSize},
                    [&](uint32_t y, const base::PlanarRow& row) {
                      writer_.write_row(row, y, {kSize, kSize}, flip, out->data());
                    });
  }

 private:
  image::Resizer resizer_;
  image::TensorWriter writer_{image::TensorOptions{}};
};

// Chroma at the sides of a crop may differ by a little, as libjpeg-turbo takes them for the image's
// own. A level is 0.017 here.
bool are_close(const ByteVector& a, const ByteVector& b) {
  const size_t count = a.size() / sizeof(float);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += std::abs(base::load_le<float>(a.data() + i * sizeof(float)) -
                    base::load_le<float>(b.data() + i * sizeof(float)));
  }
  return sum < 0.01 * static_cast<double>(count);
}

// Their time over ours, for `jobs` in groups of `together`.
double measure(jpeg::EntropyKernel kernel, const std::vector<Job>& jobs, size_t together,
               bool finish, int rounds) {
  jpeg::Decoder ours({.kernel = kernel});
  Turbo theirs;
  Finish end;
  std::vector<Pixels> out(together);
  std::vector<base::PixelRows> expected(together);
  std::vector<ByteVector> finished(together);
  std::vector<ByteVector> expected_finished(together);
  double our_sum = 0;
  double their_sum = 0;
  for (size_t at = 0; at < jobs.size(); at += together) {
    const size_t count = std::min(together, jobs.size() - at);
    double our_best = 1e9;
    double their_best = 1e9;
    for (int round = 0; round < rounds; ++round) {
      std::vector<jpeg::DecodeRequest> requests(count);
      const double start = now();
      for (size_t i = 0; i < count; ++i) {
        const Job& job = jobs[at + i];
        const jpeg::Header header = jpeg::parse_header(job.file).value();
        requests[i] = {job.file, header,
                       job.region.value_or(Rect{0, 0, header.width, header.height})};
      }
      ours.decode(requests, [&](size_t i, const base::Status& status, base::Rows& rows) {
        if (!status.ok()) stop(status.message());
        if (finish) {
          end(rows, i % 2 != 0, &finished[i]);
        } else {
          rows.move_to(&out[i]);
        }
      });
      const double middle = now();
      for (size_t i = 0; i < count; ++i) {
        theirs.decode(jobs[at + i].file, jobs[at + i].region, &expected[i].pixels);
        if (finish) end(expected[i], i % 2 != 0, &expected_finished[i]);
      }
      const double behind = now();
      our_best = std::min(our_best, middle - start);
      their_best = std::min(their_best, behind - middle);
      for (size_t i = 0; i < count; ++i) {
        const bool same = finish ? are_close(finished[i], expected_finished[i])
                                 : out[i].rgb == expected[i].pixels.rgb;
        if (!same) stop("the pixels differ");
      }
    }
    our_sum += our_best;
    their_sum += their_best;
  }
  fmt::print(stderr, "  ours {:.1f} us, libjpeg-turbo {:.1f} us\n",
             our_sum / static_cast<double>(jobs.size()) * 1e6,
             their_sum / static_cast<double>(jobs.size()) * 1e6);
  return their_sum / our_sum;
}

// Reading the coefficients of `packed`, against libjpeg-turbo's of the originals.
double measure_coefficients(jpeg::EntropyKernel kernel, const std::vector<ByteVector>& packed,
                            const std::vector<ByteVector>& originals, int rounds) {
  jpeg::CoefficientReader ours(kernel);
  Turbo theirs;
  jpeg::Coefficients out;
  double our_sum = 0;
  double their_sum = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    const jpeg::Header header = jpeg::parse_header(packed[i]).value();
    if (header.component_count == 4) continue;
    double our_best = 1e9;
    double their_best = 1e9;
    for (int round = 0; round < rounds; ++round) {
      const double start = now();
      if (!ours.read(packed[i], jpeg::parse_header(packed[i]).value(), &out).ok()) stop("damaged");
      const double middle = now();
      theirs.coefficients(originals[i], nullptr);
      const double behind = now();
      our_best = std::min(our_best, middle - start);
      their_best = std::min(their_best, behind - middle);
    }
    Sums expected;
    theirs.coefficients(originals[i], &expected);
    if (sums_of(out, header) != expected) stop("the coefficients differ");
    our_sum += our_best;
    their_sum += their_best;
  }
  return their_sum / our_sum;
}

std::vector<ByteVector> read_all(const char* folder, size_t limit) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<ByteVector> files;
  const size_t step = std::max<size_t>(1, paths.size() / limit);
  for (size_t i = 0; i < paths.size() && files.size() < limit; i += step) {
    std::ifstream in(paths[i], std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) stop("usage: bench_jpeg PHOTOS CIFAR [ROUNDS]");
  const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 5;
  const auto photos = read_all(argv[1], 500);
  const auto small = read_all(argv[2], 2048);
  std::vector<ByteVector> packed;
  std::vector<ByteVector> packed_private;
  std::vector<ByteVector> packed_small;
  std::vector<Job> whole;
  std::vector<Job> crops;
  std::vector<Job> plain_crops;
  for (const ByteVector& file : photos) {
    const auto rewritten =
        jpeg::rewrite(file, {.tables = jpeg::TableChoice::kShared, .restart_interval = {}});
    packed.push_back(rewritten ? rewritten->file : file);
    const auto with_own =
        jpeg::rewrite(file, {.tables = jpeg::TableChoice::kPrivate, .restart_interval = {}});
    packed_private.push_back(with_own ? with_own->file : file);
  }
  for (const ByteVector& file : small) packed_small.push_back(jpeg::rewrite(file)->file);
  for (size_t i = 0; i < packed.size(); ++i) {
    const auto header = jpeg::parse_header(packed[i]);
    base::Random random(1, base::Purpose::kTest, 0, i);
    const Rect crop = image::draw_crop({}, header->width, header->height, random);
    whole.push_back({packed[i], std::nullopt});
    crops.push_back({packed[i], crop});
    plain_crops.push_back({photos[i], crop});
  }
  std::vector<Job> small_jobs;
  for (const ByteVector& file : packed_small) small_jobs.push_back({file, std::nullopt});

  nlohmann::ordered_json figures{{"machine", bench::machine()}};
  const auto run = [&](jpeg::EntropyKernel kernel, const std::string& suffix) {
    const auto report = [&](const std::string& name, double ratio) {
      fmt::print("{:<32}{:>8.2f}x\n", name + suffix, ratio);
      figures[name + suffix] = ratio;
    };
    const auto add = [&](const std::string& name, const std::vector<Job>& jobs, size_t together,
                         bool finish) {
      report(name, measure(kernel, jobs, together, finish, rounds));
    };
    report("coefficients_x", measure_coefficients(kernel, packed, photos, rounds));
    report("coefficients_private_x", measure_coefficients(kernel, packed_private, photos, rounds));
    report("coefficients_plain_x", measure_coefficients(kernel, photos, photos, rounds));
    add("rgb_x", whole, 1, false);
    add("crop_x", crops, 1, true);
    add("crop_plain_x", plain_crops, 1, true);
    add("cifar_x", small_jobs, kSmallTogether, false);
  };
  if (jpeg::best_entropy_kernel() == jpeg::EntropyKernel::kAvx512) {
    run(jpeg::EntropyKernel::kAvx512, "");
    hwy::SetSupportedTargetsForTest(hwy::SupportedTargets() & ~(2 * HWY_AVX3 - 1));
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  run(jpeg::EntropyKernel::kPortable, "_portable");
  fmt::print("{}\n", figures.dump());
  return 0;
}
