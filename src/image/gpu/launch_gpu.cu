// The only file that nvcc compiles, because nvcc does not accept the libraries that other files
// use.
#include "image/gpu/launch_gpu.h"

namespace forebay::image::gpu {
namespace {

constexpr uint32_t kThreads = 128;  // threads in a block

template <class Kernel>
__global__ void run_kernel(Kernel kernel, uint32_t items) {
  const uint32_t item = blockIdx.x * blockDim.x + threadIdx.x;
  if (item < items) kernel(blockIdx.y, item);
}

template <class Kernel>
void launch(const Kernel& kernel, uint32_t count, uint32_t items, cudaStream_t stream) {
  if (count == 0 || items == 0) return;
  const dim3 grid((items + kThreads - 1) / kThreads, count);
  run_kernel<<<grid, kThreads, 0, stream>>>(kernel, items);
}

}  // namespace

cudaError_t find_kernels() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, run_kernel<WriteSamples>);
}

cudaError_t launch_kernels(const KernelArguments& arguments, cudaStream_t stream) {
  const Job& job = arguments.job;
  launch(DecodeSegments{job}, 1, job.segment_count, stream);
  launch(TransformBlocks{job}, job.region_count, arguments.blocks_max, stream);
  launch(MakePixels{job}, job.region_count, arguments.pixels_max, stream);
  launch(ResizeAcross{job}, job.region_count, arguments.between_max, stream);
  launch(WriteSamples{job}, job.count, arguments.outputs_max, stream);
  return cudaGetLastError();
}

}  // namespace forebay::image::gpu
