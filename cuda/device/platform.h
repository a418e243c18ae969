#pragma once

// What a kernel's text needs beyond functions: it is compiled by nvcc for a GPU and by the host's
// compiler for the emulator.
//
//   MLACHECK_DEVICE_FN                   a function of the device layer or of a kernel
//   MLACHECK_KERNEL(threads, blocks)  a kernel: threads a block, blocks that must fit on an SM
//   MLACHECK_UNROLL, MLACHECK_ROLLED  loops that must, and must not, be unrolled
//   MLACHECK_SITE, MLACHECK_SITE_ONLY the caller's source line, as a last or an only parameter;
//                                     nothing on a GPU, named in the emulator's reports
//   MLACHECK_PASS_SITE, ..._ONLY      the same as an argument, for a primitive made of others
#if defined(__CUDACC__)
#define MLACHECK_DEVICE_FN __device__ __forceinline__
#define MLACHECK_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define MLACHECK_UNROLL _Pragma("unroll")
#define MLACHECK_ROLLED _Pragma("unroll 1")
#define MLACHECK_SITE
#define MLACHECK_SITE_ONLY
#define MLACHECK_PASS_SITE
#define MLACHECK_PASS_SITE_ONLY
#else
#include "cuda/emulator/site.h"
// An absent tensor's address is worked out, and not used.
#ifdef __clang__
#define MLACHECK_DEVICE_FN __attribute__((no_sanitize("pointer-overflow"))) inline
#else
#define MLACHECK_DEVICE_FN inline
#endif
#define MLACHECK_KERNEL(threads, blocks) inline void
#define MLACHECK_UNROLL
#define MLACHECK_ROLLED
#define MLACHECK_SITE_ONLY ::mlacheck::emulator::Site site = ::mlacheck::emulator::Site::here()
#define MLACHECK_SITE , MLACHECK_SITE_ONLY
#define MLACHECK_PASS_SITE_ONLY site
#define MLACHECK_PASS_SITE , MLACHECK_PASS_SITE_ONLY
#endif

namespace mlacheck::device {

// The most dynamic shared memory that a block of SM120 can have. Kernels assert it on every
// architecture.
inline constexpr unsigned kSharedMemoryLimit = 101'376;

inline constexpr unsigned kWarpSize = 32;

}  // namespace mlacheck::device
