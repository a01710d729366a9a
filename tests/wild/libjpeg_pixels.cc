// Decodes a JPEG with the system's libjpeg-turbo for compare.py, which builds this file into a
// shared library and calls it through ctypes. The settings are libjpeg's defaults, like djpeg's.
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
// clang-format off: jpeglib.h must come after cstdio
#include <jpeglib.h>
// clang-format on

namespace {

constexpr size_t kTextBytes = 4096;

struct Failure {
  jpeg_error_mgr manager;
  jmp_buf back;
  char* text;  // [kTextBytes]: the error, or each different warning on its own line
};

void leave(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->text);
  longjmp(failure->back, 1);
}

void note(j_common_ptr info, int level) {
  if (level >= 0) {
    return;
  }
  char line[JMSG_LENGTH_MAX + 1];
  info->err->format_message(info, line);
  strcat(line, "\n");
  char* text = reinterpret_cast<Failure*>(info->err)->text;
  if (strstr(text, line) == nullptr && strlen(text) + strlen(line) < kTextBytes) {
    strcat(text, line);
  }
}

}  // namespace

extern "C" {

// Decodes `bytes` bytes at `data`. On success returns 1 and sets the pixels ([height][width]
// [components]), which the caller releases with libjpeg_release(); `text`, which must hold 4096
// bytes, then has each different warning on a line of its own. On failure returns 0, and `text`
// says why.
int libjpeg_decode(const uint8_t* data, size_t bytes, uint8_t** pixels, int* width, int* height,
                   int* components, char* text) {
  jpeg_decompress_struct info;
  Failure failure;
  failure.text = text;
  text[0] = '\0';
  info.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = leave;
  failure.manager.emit_message = note;
  *pixels = nullptr;
  jpeg_create_decompress(&info);
  if (setjmp(failure.back) != 0) {
    jpeg_destroy_decompress(&info);
    free(*pixels);
    *pixels = nullptr;
    return 0;
  }
  jpeg_mem_src(&info, data, bytes);
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  const size_t row_bytes = size_t{info.output_width} * static_cast<size_t>(info.output_components);
  *pixels = static_cast<uint8_t*>(malloc(row_bytes * info.output_height));
  if (*pixels == nullptr) {
    snprintf(text, kTextBytes, "no memory");
    longjmp(failure.back, 1);
  }
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = *pixels + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  *width = static_cast<int>(info.output_width);
  *height = static_cast<int>(info.output_height);
  *components = info.output_components;
  jpeg_destroy_decompress(&info);
  return 1;
}

void libjpeg_release(uint8_t* pixels) { free(pixels); }

const char* libjpeg_version(void) {
#ifdef LIBJPEG_TURBO_VERSION
#define FOREBAY_TEXT_OF(x) #x
#define FOREBAY_TEXT(x) FOREBAY_TEXT_OF(x)
  return FOREBAY_TEXT(LIBJPEG_TURBO_VERSION);
#else
  return "unknown";
#endif
}
}
