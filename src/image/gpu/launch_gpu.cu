// The only file that nvcc compiles, because nvcc does not accept the libraries that other files
// use.
#include "image/gpu/launch_gpu.h"

namespace forebay::image::gpu {
namespace {

constexpr uint32_t kThreads = 128;  // threads in a block
// Threads in a block that decodes segments. A batch has few of them, and they take long, so each
// warp goes to a multiprocessor of its own.
constexpr uint32_t kDecodeThreads = 32;

__global__ void run_decoding(DecodeSegments kernel) {
  __shared__ uint32_t rings[jpeg::gpu::RingReader::kRingWords * kDecodeThreads];
  const uint32_t item = blockIdx.x * kDecodeThreads + threadIdx.x;
  if (item < kernel.job.segment_count) kernel(item, rings + threadIdx.x, kDecodeThreads);
}

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
  const RoundArrays& job = arguments.job;
  if (job.segment_count > 0) {
    const uint32_t blocks = (job.segment_count + kDecodeThreads - 1) / kDecodeThreads;
    run_decoding<<<blocks, kDecodeThreads, 0, stream>>>(DecodeSegments{job});
  }
  launch(TransformBlocks{job}, job.region_count, arguments.blocks_max, stream);
  launch(MakePixels{job}, job.region_count, arguments.quads_max, stream);
  launch(ResizeAcross{job}, job.region_count, arguments.between_max, stream);
  launch(WriteSamples{job}, job.count, arguments.outputs_max, stream);
  return cudaGetLastError();
}

}  // namespace forebay::image::gpu
