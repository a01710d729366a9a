// Reads the coefficients of a JPEG: our own way, as the decoder's (decode.h), or libjpeg-turbo's.
#pragma once

#include "jpeg/coefficients.h"
#include "jpeg/scan_decoder.h"
#include "jpeg/turbo.h"

namespace forebay::jpeg {

// Keeps its buffers between images. One thread at a time.
class CoefficientReader {
 public:
  // `kernel`: the only one; unset, the fastest.
  explicit CoefficientReader(std::optional<EntropyKernel> kernel = {}) : decoder_(kernel) {}

  // `header`: the file's, of one or three components. Errors: kCorrupt (the coefficients' data is
  // damaged), kUnsupported (progressive without its last scans, quantisation tables that change or
  // have zeros, foreign bytes after a scan), kNoMemory.
  Status read(Bytes file, const Header& header, Coefficients* out);

 private:
  bool decode(Bytes file, const Header& header, Coefficients* out);
  Status read_by_turbo(const Header& header, Coefficients* out);

  ScanDecoder decoder_;
  TurboReader turbo_;
};

}  // namespace forebay::jpeg
