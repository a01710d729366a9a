// Marks functions for both the GPU and the host. On the host, tests run them without a GPU. This
// header has no dependencies, because nvcc compiles it.
#pragma once

#ifdef __CUDACC__
#define FOREBAY_GPU __host__ __device__
#else
#define FOREBAY_GPU
#endif
