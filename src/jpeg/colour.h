// Rows of component samples to rows of RGB: libjpeg's fancy upsampling and colour conversion.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forebay::jpeg {

// Bytes that may be written behind a row.
inline constexpr size_t kRowPadding = 128;

// Twice as many samples as `count`: (3 near + far) / 4, the far one on the other side. Reads
// in[-1] and in[count] too, and kRowPadding behind.
void double_across(const uint8_t* in, size_t count, uint8_t* out);
// A row between two: (3 near + far + bias) / 4; bias 1 for the upper row of two, 2 for the lower.
void blend_down(const uint8_t* near, const uint8_t* far, size_t count, int bias, uint8_t* out);
// Both at once, in libjpeg's rounding.
void double_both(const uint8_t* near, const uint8_t* far, size_t count, uint8_t* out);
// Each sample `times` times.
void repeat_across(const uint8_t* in, size_t count, uint32_t times, uint8_t* out);

// JFIF's conversion, to `count` * 3 bytes. Nothing is written behind them.
void ycc_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, size_t count, uint8_t* rgb);
void interleave_rgb(const uint8_t* r, const uint8_t* g, const uint8_t* b, size_t count,
                    uint8_t* rgb);

}  // namespace forebay::jpeg
