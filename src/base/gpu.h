// What code needs that runs on a GPU and, for its tests, on the host.
#pragma once

#ifdef __CUDACC__
#define FOREBAY_GPU __host__ __device__
#else
#define FOREBAY_GPU
#endif
