#pragma once

// MLACHECK_HOST_DEVICE marks the few functions that kernels share with the reference.
#if defined(__CUDACC__)
#define MLACHECK_HOST_DEVICE __host__ __device__
#else
#define MLACHECK_HOST_DEVICE
#endif
