// deps: forebay_jpeg forebay_io JPEG::JPEG
// How fast one core rewrites photographs, against libjpeg-turbo doing the same job:
//   bench_pack FOLDER [ROUNDS]
// Both sides: all metadata kept, the same restart interval, Huffman tables fitted to the image
// (ours: the cheapest of shared and private). Image by image in turn, best of the rounds each;
// coefficients compared. Figure: pack_x = their time / ours.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
// clang-format off: jpeglib.h needs cstdio before it
#include <jpeglib.h>
// clang-format on

#include "jpeg/rewrite.h"
#include "lib/machine.h"

namespace jpeg = forebay::jpeg;
using forebay::base::Bytes;
using forebay::base::ByteVector;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "bench_pack: {}\n", why);
  std::exit(1);
}

// libjpeg-turbo's objects, kept between images as ours are. Errors of good files end the program.
class Turbo {
 public:
  Turbo() {
    in_.err = jpeg_std_error(&errors_);
    out_.err = &errors_;
    jpeg_create_decompress(&in_);
    jpeg_create_compress(&out_);
    for (int app = 0; app < 16; ++app) jpeg_save_markers(&in_, JPEG_APP0 + app, 0xFFFF);
    jpeg_save_markers(&in_, JPEG_COM, 0xFFFF);
  }
  ~Turbo() {
    jpeg_destroy_compress(&out_);
    jpeg_destroy_decompress(&in_);
  }
  Turbo(const Turbo&) = delete;
  Turbo& operator=(const Turbo&) = delete;

  size_t transcode(Bytes source, uint32_t interval) {
    jpeg_mem_src(&in_, source.data(), static_cast<unsigned long>(source.size()));
    jpeg_read_header(&in_, TRUE);
    jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&in_);
    unsigned char* memory = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&out_, &memory, &size);
    jpeg_copy_critical_parameters(&in_, &out_);
    out_.optimize_coding = TRUE;
    out_.restart_interval = interval;
    jpeg_write_coefficients(&out_, coefficients);
    for (auto* marker = in_.marker_list; marker != nullptr; marker = marker->next) {
      const bool jfif = out_.write_JFIF_header && marker->marker == JPEG_APP0;
      const bool adobe = out_.write_Adobe_marker && marker->marker == JPEG_APP0 + 14;
      if (jfif || adobe) continue;  // written by the library
      jpeg_write_marker(&out_, marker->marker, marker->data, marker->data_length);
    }
    jpeg_finish_compress(&out_);
    jpeg_finish_decompress(&in_);
    std::free(memory);
    return size;
  }

  // All coefficients of a file, for the comparison.
  std::vector<JCOEF> coefficients(Bytes file) {
    std::vector<JCOEF> all;
    jpeg_mem_src(&in_, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&in_, TRUE);
    jvirt_barray_ptr* arrays = jpeg_read_coefficients(&in_);
    for (int c = 0; c < in_.num_components; ++c) {
      const jpeg_component_info& component = in_.comp_info[c];
      for (JDIMENSION y = 0; y < component.height_in_blocks; ++y) {
        const JCOEF* row = (*in_.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&in_),
                                                         arrays[c], y, 1, FALSE))[0];
        all.insert(all.end(), row, row + size_t{component.width_in_blocks} * 64);
      }
    }
    jpeg_finish_decompress(&in_);
    return all;
  }

 private:
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct in_{};
  jpeg_compress_struct out_{};
};

struct Figures {
  double ours = 0;  // seconds
  double theirs = 0;
  size_t our_bytes = 0;
  size_t their_bytes = 0;
  size_t source_bytes = 0;
  size_t images = 0;
};

void measure(const ByteVector& source, int rounds, Turbo& turbo, Figures* sum) {
  const auto first = jpeg::rewrite(source);
  if (!first) return;  // CMYK and the like: neither side
  if (turbo.coefficients(source) != turbo.coefficients(first->file)) {
    stop("the rewrite changed coefficients");
  }
  double ours = 1e9;
  double theirs = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double start = now();
    const auto out = jpeg::rewrite(source);
    const double middle = now();
    const size_t bytes = turbo.transcode(source, first->header.restart_interval);
    const double end = now();
    ours = std::min(ours, middle - start);
    theirs = std::min(theirs, end - middle);
    if (round == 0) sum->our_bytes += out->file.size(), sum->their_bytes += bytes;
  }
  sum->ours += ours;
  sum->theirs += theirs;
  sum->source_bytes += source.size();
  ++sum->images;
}

void print_row(const char* who, double seconds, size_t bytes, const Figures& sum) {
  const auto source = static_cast<double>(sum.source_bytes);
  fmt::print("{:<16}{:>12.1f}{:>12.1f}{:>14}{:>10.4f}\n", who, source / seconds / 1e6,
             static_cast<double>(sum.images) / seconds, bytes, static_cast<double>(bytes) / source);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) stop("usage: bench_pack FOLDER [ROUNDS]");
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 3;
  Turbo turbo;
  Figures sum;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const ByteVector source{std::istreambuf_iterator<char>(in), {}};
    if (jpeg::is_jpeg(source)) measure(source, rounds, turbo, &sum);
  }
  if (sum.images == 0) stop("no JPEG that can be rewritten");
  fmt::print("{} images, {} B, one core, best of {}\n", sum.images, sum.source_bytes, rounds);
  fmt::print("{:<16}{:>12}{:>12}{:>14}{:>10}\n", "", "MB/s", "images/s", "bytes", "/source");
  print_row("jpeg::rewrite", sum.ours, sum.our_bytes, sum);
  print_row("libjpeg-turbo", sum.theirs, sum.their_bytes, sum);
  fmt::print("{{\"machine\": \"{}\", \"pack_x\": {:.3f}}}\n", forebay::bench::machine(),
             sum.theirs / sum.ours);
  return 0;
}
