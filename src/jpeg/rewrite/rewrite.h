// The lossless rewrite that `forebay pack` does: same coefficients, same pixels and same metadata
// markers, as a baseline JPEG with restart markers and with Huffman tables that a decoder knows in
// advance. Reasons and figures are in docs/decisions/. Our own decoder or libjpeg-turbo reads the
// coefficients (coefficient_reader.h); the writer is our own.
#pragma once

#include <optional>

#include "jpeg/format/restart_index.h"

namespace forebay::jpeg {

enum class TableMode : uint8_t {
  kCheapest,  // the best shared set, or private tables when these save more than 3 % of an image
              // of 64 MCUs or more
  kShared,    // the best shared set, always
  kPrivate,   // the image's own optimal tables, always
};

struct RewriteOptions {
  TableMode tables = TableMode::kCheapest;
  // MCUs between restart markers; 0 means none. When unset: 8 for 4:4:4 and grey, 4 for subsampled
  // images, none for images with fewer than 64 MCUs.
  std::optional<uint32_t> restart_interval;
};

struct Rewritten {
  base::ByteVector file;
  Header header;
  RestartIndex index;
  // The shared set that the luma AC table comes from, 0 to 7, or -1 for private tables. Each of the
  // four table slots picks its own set.
  int table_set = -1;
};

// Rewrites a JPEG. Errors: kUnsupported for files that cannot be rewritten without loss (CMYK,
// 12-bit, arithmetic, bytes between segments, more data after the image, …), with one of a few
// fixed reasons; kCorrupt for damaged or malformed files; kTooBig. A bad file never affects the
// next one. Thread-safe.
Result<Rewritten> rewrite(Bytes source, const RewriteOptions& options = {});

}  // namespace forebay::jpeg
