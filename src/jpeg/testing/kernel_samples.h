// For tests: the kernels that this machine runs, and one request decoded.
#pragma once

#include <vector>

#include "jpeg/decode.h"

namespace forebay::jpeg {

inline std::vector<EntropyKernel> kernels() {
  std::vector<EntropyKernel> all;
  for (const auto kernel :
       {EntropyKernel::kPortable, EntropyKernel::kAvx2, EntropyKernel::kAvx512}) {
    if (kernel <= best_entropy_kernel()) all.push_back(kernel);
  }
  return all;
}

inline Status decode(Decoder& decoder, const RegionRequest& request, base::Pixels* out) {
  Status result;
  decoder.decode({&request, 1}, [&](size_t, const Status& status, base::Rows& rows) {
    result = status;
    if (status.ok()) rows.move_to(out);
  });
  return result;
}

}  // namespace forebay::jpeg
