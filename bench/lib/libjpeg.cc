#include "lib/libjpeg.h"

#include <algorithm>
#include <cstdlib>

namespace forebay::bench {
namespace {

void begin(jpeg_decompress_struct* info, base::Bytes file) {
  jpeg_mem_src(info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(info, TRUE);
}

}  // namespace

Libjpeg::Libjpeg() {
  in_.err = with_markers_.err = out_.err = jpeg_std_error(&errors_);
  jpeg_create_decompress(&in_);
  jpeg_create_decompress(&with_markers_);
  jpeg_create_compress(&out_);
  for (int app = 0; app < 16; ++app) jpeg_save_markers(&with_markers_, JPEG_APP0 + app, 0xFFFF);
  jpeg_save_markers(&with_markers_, JPEG_COM, 0xFFFF);
}

Libjpeg::~Libjpeg() {
  jpeg_destroy_compress(&out_);
  jpeg_destroy_decompress(&with_markers_);
  jpeg_destroy_decompress(&in_);
}

void Libjpeg::read_coefficients(base::Bytes file, std::vector<int16_t>* out) {
  begin(&in_, file);
  jvirt_barray_ptr* arrays = jpeg_read_coefficients(&in_);
  if (out != nullptr) out->clear();
  for (int c = 0; out != nullptr && c < in_.num_components; ++c) {
    const jpeg_component_info& component = in_.comp_info[c];
    for (JDIMENSION y = 0; y < component.height_in_blocks; ++y) {
      const JCOEF* const row = (*in_.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&in_),
                                                             arrays[c], y, 1, FALSE))[0];
      out->insert(out->end(), row, row + size_t{component.width_in_blocks} * 64);
    }
  }
  jpeg_abort_decompress(&in_);
}

void Libjpeg::decode(base::Bytes file, const std::optional<base::Rect>& region, base::Pixels* out) {
  begin(&in_, file);
  in_.out_color_space = JCS_RGB;
  jpeg_start_decompress(&in_);
  const base::Rect rect = region.value_or(base::Rect{0, 0, in_.image_width, in_.image_height});
  JDIMENSION left = rect.x;
  JDIMENSION width = rect.width;
  if (width != in_.image_width) jpeg_crop_scanline(&in_, &left, &width);
  if (rect.y > 0) jpeg_skip_scanlines(&in_, rect.y);
  out->reset(rect.width, rect.height);
  row_.resize(size_t{in_.output_width} * 3);
  for (uint32_t y = 0; y < rect.height; ++y) {
    uint8_t* const to = out->rgb.data() + size_t{y} * rect.width * 3;
    JSAMPROW rows[1] = {width == rect.width ? to : row_.data()};
    jpeg_read_scanlines(&in_, rows, 1);
    if (rows[0] != to) std::copy_n(row_.data() + (rect.x - left) * 3, rect.width * 3, to);
  }
  jpeg_abort_decompress(&in_);
}

size_t Libjpeg::transcode(base::Bytes file, uint32_t interval) {
  begin(&with_markers_, file);
  jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&with_markers_);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&out_, &memory, &size);
  jpeg_copy_critical_parameters(&with_markers_, &out_);
  out_.optimize_coding = TRUE;
  out_.restart_interval = interval;
  jpeg_write_coefficients(&out_, coefficients);
  for (auto* marker = with_markers_.marker_list; marker != nullptr; marker = marker->next) {
    const bool jfif = out_.write_JFIF_header && marker->marker == JPEG_APP0;
    const bool adobe = out_.write_Adobe_marker && marker->marker == JPEG_APP0 + 14;
    if (jfif || adobe) continue;  // the library writes these itself
    jpeg_write_marker(&out_, marker->marker, marker->data, marker->data_length);
  }
  jpeg_finish_compress(&out_);
  jpeg_finish_decompress(&with_markers_);
  std::free(memory);
  return size;
}

}  // namespace forebay::bench
