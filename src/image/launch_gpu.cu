// All that nvcc compiles: it does not take the libraries that others use.
#include "image/launch_gpu.h"

namespace forebay::image::gpu {
namespace {

constexpr uint32_t kThreads = 128;  // of a block

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

cudaError_t launch_kernels(const Run& run, cudaStream_t stream) {
  const Job& job = run.job;
  launch(DecodeSegments{job}, 1, job.segment_count, stream);
  launch(TransformBlocks{job}, job.region_count, run.blocks_max, stream);
  launch(MakePixels{job}, job.region_count, run.pixels_max, stream);
  launch(ResizeAcross{job}, job.region_count, run.between_max, stream);
  launch(WriteSamples{job}, job.count, run.outputs_max, stream);
  return cudaGetLastError();
}

}  // namespace forebay::image::gpu
