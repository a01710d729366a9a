// Starts the kernels of kernels_gpu.h on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "image/gpu/kernels_gpu.h"

namespace forebay::image::gpu {

// Returns an error when the current device cannot run the kernels.
cudaError_t find_kernels();

// Starts all kernels after the work that was begun on the stream, and returns at once.
cudaError_t launch_kernels(const KernelArguments& arguments, cudaStream_t stream);

}  // namespace forebay::image::gpu
