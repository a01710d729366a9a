// The mark of functions that run on a GPU and also, so that tests need no GPU, on the host. It has
// no dependencies, because nvcc compiles it.
#pragma once

#ifdef __CUDACC__
#define FOREBAY_GPU __host__ __device__
#else
#define FOREBAY_GPU
#endif
