// Reads the coefficients of a JPEG, either with our own entropy decoder (region_batch.h) or with
// libjpeg-turbo.
#pragma once

#include "jpeg/format/coefficients.h"
#include "jpeg/region_batch.h"
#include "jpeg/turbo.h"

namespace forebay::jpeg {

// Keeps its buffers between images. Used by one thread at a time.
class CoefficientReader {
 public:
  // `kernel` is used for everything; when unset, the fastest is chosen for each number of streams.
  explicit CoefficientReader(std::optional<EntropyKernel> kernel = {}) : decoder_(kernel) {}

  // Reads the coefficients of `file`. `header` is its header, with one or three components. Errors:
  // kCorrupt (the coefficients' data is damaged), kUnsupported (progressive without its last scans,
  // quantisation tables that change or have zeros, foreign bytes after a scan), kNoMemory.
  Status read(Bytes file, const Header& header, Coefficients* out);

 private:
  bool decode(Bytes file, const Header& header, Coefficients* out);
  Status read_by_turbo(const Header& header, Coefficients* out);

  RegionBatch decoder_;
  TurboReader turbo_;
};

}  // namespace forebay::jpeg
