// The kernels of kernels_gpu.h on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "image/kernels_gpu.h"

namespace forebay::image::gpu {

// Whether the current device can run them.
cudaError_t find_kernels();

// Behind what was begun on the stream; comes back at once.
cudaError_t launch_kernels(const Run& run, cudaStream_t stream);

}  // namespace forebay::image::gpu
