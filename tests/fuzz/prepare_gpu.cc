// deps: forebay_image
// Runs the kernels of a GPU on the host, with any bytes as a file. The result must be the sample or
// the error of the usual decoder.
#include "image/prepare_gpu.h"

#include <cstdlib>
#include <cstring>

namespace image = forebay::image;
using forebay::base::Bytes;
using forebay::base::ByteVector;
using forebay::base::Purpose;
using forebay::base::Random;

namespace {

constexpr uint64_t kMostPixels = 1 << 16;  // larger images only slow the fuzzer down

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return ::setenv("JSIMD_FORCENONE", "1", 1); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes file(data, size);
  const auto source = image::read_header(file, true);
  if (!source || uint64_t{source->size.width} * source->size.height > kMostPixels) return 0;
  static const image::Transform transform{.size = {11, 9}, .crop = {}, .oriented = true};
  static const image::TensorOptions tensor{.dtype = image::DType::kUint8};
  static image::Preparer host(transform, tensor);
  static image::GpuPreparer gpu(transform, tensor, image::gpu::host_device());
  const size_t bytes = host.sample_bytes();
  ByteVector expected(bytes);
  ByteVector made(2 * bytes);
  // Decodes two regions of the file side by side.
  std::vector<image::PrepareRequest> requests;
  for (size_t i = 0; i < 2; ++i) {
    requests.push_back({.file = file,
                        .random = Random(size, Purpose::kTest, 0, i),
                        .out = made.data() + i * bytes});
  }
  gpu.prepare(requests, true);
  for (const image::PrepareRequest& request : requests) {
    const auto status = host.prepare(file, request.random, expected.data());
    require(status.code() == request.status.code());
    require(!status.ok() || std::memcmp(expected.data(), request.out, bytes) == 0);
  }
  return 0;
}
