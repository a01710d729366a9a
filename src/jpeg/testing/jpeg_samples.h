// For tests: makes JPEGs with libjpeg, and reads coefficients and pixels with it as the reference.
#pragma once

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// clang-format off: jpeglib.h needs cstdio before it
#include <jpeglib.h>
// clang-format on

#include <functional>
#include <string>
#include <vector>

#include "base/pixels.h"
#include "base/random.h"
#include "jpeg/format/header.h"
#include "jpeg/format/huffman_table.h"

namespace forebay::jpeg {

inline base::Rect random_region(uint32_t width, uint32_t height, base::Random& random) {
  base::Rect region;
  region.width = 1 + static_cast<uint32_t>(random.below(width));
  region.height = 1 + static_cast<uint32_t>(random.below(height));
  region.x = static_cast<uint32_t>(random.below(width - region.width + 1));
  region.y = static_cast<uint32_t>(random.below(height - region.height + 1));
  return region;
}

// Returns interleaved pixels, from rows one by one.
inline std::vector<uint8_t> interleaved(base::Rows& rows) {
  std::vector<uint8_t> rgb;
  for (uint32_t y = 0; y < rows.height(); ++y) {
    const base::PlanarRow row = rows.row(y);
    for (uint32_t x = 0; x < rows.width(); ++x) {
      for (const uint8_t* channel : row) rgb.push_back(channel[x]);
    }
  }
  return rgb;
}

// Luma sampling factors, across and down; chroma has 1 and 1.
inline constexpr int kLumaFactors[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2},
                                          {4, 1}, {4, 2}, {1, 4}, {3, 1}};

// Returns a DC table or an AC table.
using TableMaker = std::function<HuffmanTable(bool ac)>;

struct Sample {
  uint32_t width = 16;
  uint32_t height = 16;
  int components = 3;  // 1, 3 or 4
  int across = 1;      // luma sampling factors
  int down = 1;
  std::array<std::array<int, 2>, 2> chroma = {{{1, 1}, {1, 1}}};  // sampling factors of chroma
  int quality = 90;
  bool rgb = false;  // coded as RGB, without a colour transform
  bool progressive = false;
  bool arithmetic = false;
  bool separate_scans = false;
  int restart = 0;
  bool comments = false;
  std::vector<uint8_t> plain = {};  // one colour everywhere, when not empty
  bool gradient = false;            // a grey gradient, from black at the upper left to white
  bool optimised = false;           // Huffman tables optimised for the image
  TableMaker tables = {};           // or these tables, with codes for all legal symbols
  std::string name() const {
    return fmt::format("{}x{} c{} {}x{} {}x{} {}x{} q{}{}{}{}{}{}{} r{}", width, height, components,
                       across, down, chroma[0][0], chroma[0][1], chroma[1][0], chroma[1][1],
                       quality, rgb ? " rgb" : "", progressive ? " prog" : "",
                       arithmetic ? " arith" : "", separate_scans ? " scans" : "",
                       optimised ? " optimised" : "", tables ? " tables" : "", restart);
  }
};

inline std::vector<uint8_t> sample_rows(const Sample& sample, uint64_t seed) {
  base::Random random(seed, base::Purpose::kTest);
  std::vector<uint8_t> pixels(size_t{sample.width} * sample.height *
                              static_cast<size_t>(sample.components));
  uint8_t* out = pixels.data();
  const uint64_t noise = 1 + random.below(60);
  for (uint32_t y = 0; y < sample.height; ++y) {
    for (uint32_t x = 0; x < sample.width; ++x) {
      for (uint32_t c = 0; c < static_cast<uint32_t>(sample.components); ++c) {
        const uint64_t value = x * (3 + c) + y * (5 - c) + random.below(noise) + (x / 7 % 2) * 80;
        const uint32_t grey = 255 * (x + y) / (sample.width + sample.height);
        *out++ = static_cast<uint8_t>(sample.gradient ? grey : value);
      }
    }
  }
  return pixels;
}

inline void replace_tables(jpeg_compress_struct& info, const TableMaker& make) {
  const auto replace = [&](JHUFF_TBL** slot, bool ac) {
    const HuffmanTable table = make(ac);
    if (*slot == nullptr) *slot = jpeg_alloc_huff_table(reinterpret_cast<j_common_ptr>(&info));
    std::copy(table.bits.begin(), table.bits.end(), (*slot)->bits + 1);
    std::copy(table.values.begin(), table.values.end(), (*slot)->huffval);
    (*slot)->sent_table = FALSE;
  };
  for (int i = 0; i < 2; ++i) {
    replace(&info.dc_huff_tbl_ptrs[i], false);
    replace(&info.ac_huff_tbl_ptrs[i], true);
  }
}

// Returns a table with random code lengths, many of which are too long for a lookup.
inline HuffmanTable random_table(bool ac, base::Random& random) {
  Histogram histogram{};
  for (int symbol = 0; symbol < 256; ++symbol) {
    if (!is_legal_symbol(ac, symbol)) continue;
    histogram[static_cast<size_t>(symbol)] = 1u << random.below(26);
  }
  return optimal_table(histogram);
}

// Encodes `pixels`, rows of sample.width * sample.components bytes.
inline std::vector<uint8_t> encode_jpeg(const Sample& sample, std::vector<uint8_t>& pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  errors.output_message = [](j_common_ptr) {};
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = sample.width;
  info.image_height = sample.height;
  info.input_components = sample.components;
  info.in_color_space = sample.components == 1   ? JCS_GRAYSCALE
                        : sample.components == 3 ? JCS_RGB
                                                 : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (sample.rgb) jpeg_set_colorspace(&info, JCS_RGB);
  if (sample.components == 4 && sample.rgb) jpeg_set_colorspace(&info, JCS_YCCK);
  jpeg_set_quality(&info, sample.quality, sample.quality >= 10 ? TRUE : FALSE);
  for (int c = 0; c < info.num_components; ++c) {
    const bool luma = c == 0 || c == 3;
    const size_t chroma = c == 2 ? 1 : 0;
    info.comp_info[c].h_samp_factor = luma ? sample.across : sample.chroma[chroma][0];
    info.comp_info[c].v_samp_factor = luma ? sample.down : sample.chroma[chroma][1];
  }
  if (sample.tables) replace_tables(info, sample.tables);
  info.optimize_coding = sample.optimised ? TRUE : FALSE;
  info.arith_code = sample.arithmetic ? TRUE : FALSE;
  info.restart_interval = static_cast<unsigned>(sample.restart);
  if (sample.progressive) jpeg_simple_progression(&info);
  std::vector<jpeg_scan_info> scans;
  for (int c = 0; c < info.num_components; ++c) {
    scans.push_back({1, {c, 0, 0, 0}, 0, 63, 0, 0});
  }
  if (sample.separate_scans) {
    info.scan_info = scans.data();
    info.num_scans = info.num_components;
  }
  jpeg_start_compress(&info, TRUE);
  if (sample.comments) {
    const JOCTET text[] = "a comment";
    jpeg_write_marker(&info, JPEG_APP0 + 1, text, 5);
    jpeg_write_marker(&info, JPEG_COM, text, 9);
    jpeg_write_marker(&info, JPEG_APP0 + 13, text, 0);
  }
  const size_t stride = size_t{sample.width} * static_cast<size_t>(sample.components);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + info.next_scanline * stride;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<uint8_t> out(memory, memory + size);
  std::free(memory);
  jpeg_destroy_compress(&info);
  return out;
}

inline std::vector<uint8_t> make_jpeg(const Sample& sample, uint64_t seed = 1) {
  std::vector<uint8_t> pixels = sample_rows(sample, seed);
  for (size_t i = 0; !sample.plain.empty() && i < pixels.size(); ++i) {
    pixels[i] = sample.plain[i % sample.plain.size()];
  }
  return encode_jpeg(sample, pixels);
}

// libjpeg with a good file whose header was read.
struct Reading {
  explicit Reading(Bytes file) {
    info.err = jpeg_std_error(&errors);
    errors.output_message = [](j_common_ptr) {};
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info, TRUE);
  }
  ~Reading() { jpeg_destroy_decompress(&info); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
};

// Returns what libjpeg reads from a good file as one list of numbers: all coefficients (real blocks
// only) and their properties.
inline std::vector<int> coefficients(Bytes file) {
  Reading reading(file);
  jpeg_decompress_struct& info = reading.info;
  jvirt_barray_ptr* arrays = jpeg_read_coefficients(&info);
  std::vector<int> out = {static_cast<int>(info.image_width), static_cast<int>(info.image_height),
                          static_cast<int>(info.jpeg_color_space), info.saw_JFIF_marker,
                          info.saw_Adobe_marker};
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    out.insert(out.end(), {component.component_id, component.h_samp_factor, component.v_samp_factor,
                           component.quant_tbl_no});
    out.insert(out.end(), component.quant_table->quantval, component.quant_table->quantval + 64);
    for (JDIMENSION y = 0; y < component.height_in_blocks; ++y) {
      JBLOCKARRAY rows = info.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&info),
                                                      arrays[c], y, 1, FALSE);
      const JCOEF* first = rows[0][0];
      out.insert(out.end(), first, first + size_t{component.width_in_blocks} * 64);
    }
  }
  out.push_back(static_cast<int>(reading.errors.num_warnings));
  return out;
}

// Codes the image again with other Huffman tables. They must have codes for all symbols of the
// image.
inline std::vector<uint8_t> with_tables(Bytes file, int restart, const TableMaker& make) {
  Reading reading(file);
  jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&reading.info);
  jpeg_compress_struct out{};
  out.err = &reading.errors;
  jpeg_create_compress(&out);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&out, &memory, &size);
  jpeg_copy_critical_parameters(&reading.info, &out);
  out.restart_interval = static_cast<unsigned>(restart);
  replace_tables(out, make);
  jpeg_write_coefficients(&out, coefficients);
  jpeg_finish_compress(&out);
  std::vector<uint8_t> bytes(memory, memory + size);
  std::free(memory);
  jpeg_destroy_compress(&out);
  return bytes;
}

// Decodes a grey or YCC file to RGB with libjpeg.
inline std::vector<uint8_t> reference_pixels(Bytes file) {
  Reading reading(file);
  jpeg_decompress_struct& info = reading.info;
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  std::vector<uint8_t> out(size_t{info.output_width} * info.output_height * 3);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = out.data() + size_t{info.output_scanline} * info.output_width * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  return out;
}

// The RGB bytes of a region.
inline base::ByteVector crop(const base::Pixels& pixels, const base::Rect& region) {
  base::ByteVector out;
  for (uint32_t y = 0; y < region.height; ++y) {
    const uint8_t* from = pixels.rgb.data() + (size_t{region.y + y} * pixels.width + region.x) * 3;
    out.insert(out.end(), from, from + size_t{region.width} * 3);
  }
  return out;
}

}  // namespace forebay::jpeg
