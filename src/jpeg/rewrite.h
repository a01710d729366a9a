// The lossless rewrite that pack does: same coefficients, same pixels, same metadata markers, as a
// baseline JPEG with restart markers and Huffman tables that a decoder knows beforehand.
// Reasons and figures: docs/decisions/. libjpeg-turbo reads; the writer is ours.
#pragma once

#include <optional>

#include "jpeg/restart_index.h"

namespace forebay::jpeg {

enum class TableChoice : uint8_t {
  kCheapest,  // the best shared set, or private tables where those save more than 3 % of an image
              // of 64 MCUs or more
  kShared,    // the best shared set, always
  kPrivate,   // the image's own optimal tables, always
};

struct RewriteOptions {
  TableChoice tables = TableChoice::kCheapest;
  // MCUs between restart markers; unset: 8 for 4:4:4 and grey, 4 for subsampled images, none for
  // images under 64 MCUs. 0: none.
  std::optional<uint32_t> restart_interval;
};

struct Rewritten {
  base::ByteVector file;
  Header header;
  RestartIndex index;
  // The shared set that the luma AC table comes from, 0 to 7; -1: private tables. Each of the four
  // table slots picks its own set.
  int table_set = -1;
};

// Errors: kUnsupported for what cannot be rewritten without loss (CMYK, 12-bit, arithmetic, bytes
// between segments, more data after the image, …) with one of a few fixed reasons, kCorrupt for
// what is damaged or malformed, kTooBig. One bad file never affects the next. Thread-safe.
Result<Rewritten> rewrite(Bytes source, const RewriteOptions& options = {});

}  // namespace forebay::jpeg
