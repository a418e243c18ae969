// The functions that kernels share with the reference give the same bits on a GPU as on the CPU:
// exp2, log2 and the conversions to f16, bf16 and e4m3. And a matrix is transposed as the emulator
// has it.
//
//   device_math_test          every 251st of the 2^32 fp32 inputs
//   device_math_test --all    all of them

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/device/matrix.h"
#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/formats/bf16.h"
#include "reference/formats/e4m3.h"
#include "reference/formats/f16.h"

namespace {

using namespace mlacheck;

struct Exp2 {
  static constexpr const char* kName = "exp2_f32";
  MLACHECK_HOST_DEVICE std::uint32_t operator()(float x) const {
    return std::bit_cast<std::uint32_t>(exp2_f32(x));
  }
};
struct Log2 {
  static constexpr const char* kName = "log2_f32";
  MLACHECK_HOST_DEVICE std::uint32_t operator()(float x) const {
    return std::bit_cast<std::uint32_t>(log2_f32(x));
  }
};
struct ToF16 {
  static constexpr const char* kName = "to_f16";
  MLACHECK_HOST_DEVICE std::uint32_t operator()(float x) const { return to_f16(x).bits; }
};
struct ToBf16 {
  static constexpr const char* kName = "to_bf16";
  MLACHECK_HOST_DEVICE std::uint32_t operator()(float x) const { return to_bf16(x).bits; }
};
struct ToE4m3 {
  static constexpr const char* kName = "to_e4m3";
  MLACHECK_HOST_DEVICE std::uint32_t operator()(float x) const { return to_e4m3(x).bits; }
};
struct ToE4m3Saturating {
  static constexpr const char* kName = "to_e4m3_saturating";
  MLACHECK_HOST_DEVICE std::uint32_t operator()(float x) const {
    return to_e4m3_saturating(x).bits;
  }
};

constexpr std::int64_t kChunk = std::int64_t{1} << 24;

MLACHECK_HOST_DEVICE float input(std::int64_t i, std::uint32_t stride) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(i) * stride);
}

template <class F>
__global__ void evaluate(F f, std::int64_t first, std::int64_t count, std::uint32_t stride,
                         std::uint32_t* results) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) results[i] = f(input(first + i, stride));
}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorNoKernelImageForDevice) {
    std::printf("SKIPPED: cuda.device_math: not built for this GPU\n");
    std::exit(77);
  }
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}

// Number of inputs for which the two differ.
template <class F>
std::int64_t differences(F f, std::uint32_t stride) {
  const std::int64_t total = (std::int64_t{1} << 32) / stride;
  std::uint32_t* device = nullptr;
  check(cudaMalloc(&device, kChunk * sizeof(std::uint32_t)), "cudaMalloc");
  std::vector<std::uint32_t> results(kChunk);
  std::int64_t differing = 0;
  for (std::int64_t first = 0; first < total; first += kChunk) {
    const std::int64_t count = std::min(kChunk, total - first);
    evaluate<<<static_cast<unsigned>((count + 255) / 256), 256>>>(f, first, count, stride, device);
    check(cudaGetLastError(), F::kName);
    check(cudaMemcpy(results.data(), device, count * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
          F::kName);
#pragma omp parallel for reduction(+ : differing)
    for (std::int64_t i = 0; i < count; ++i) {
      const float x = input(first + i, stride);
      if (f(x) == results[i]) continue;
      if (differing++ == 0)
        std::printf("  %s(%a): CPU %08x, GPU %08x\n", F::kName, static_cast<double>(x), f(x),
                    results[i]);
    }
  }
  check(cudaFree(device), "cudaFree");
  std::printf("%-20s %lld of %lld inputs differ\n", F::kName, static_cast<long long>(differing),
              static_cast<long long>(total));
  return differing;
}

__global__ void transpose(const std::uint32_t* words, std::uint32_t* transposed) {
  transposed[threadIdx.x] = device::transpose_matrix(words[threadIdx.x]);
}

// Elements of a transposed 8 x 8 matrix that are not where they belong.
std::int64_t misplaced() {
  std::uint16_t in[8][8], out[8][8];
  for (int i = 0; i < 64; ++i) in[i / 8][i % 8] = static_cast<std::uint16_t>(i * 1021);
  std::uint32_t* words = nullptr;
  check(cudaMalloc(&words, 2 * sizeof in), "cudaMalloc");
  check(cudaMemcpy(words, in, sizeof in, cudaMemcpyHostToDevice), "cudaMemcpy");
  transpose<<<1, 32>>>(words, words + 32);
  check(cudaGetLastError(), "transpose_matrix");
  check(cudaMemcpy(out, words + 32, sizeof out, cudaMemcpyDeviceToHost), "transpose_matrix");
  check(cudaFree(words), "cudaFree");
  std::int64_t count = 0;
  for (int i = 0; i < 64; ++i) count += out[i / 8][i % 8] != in[i % 8][i / 8] ? 1 : 0;
  std::printf("%-20s %lld of 64 elements misplaced\n", "transpose_matrix",
              static_cast<long long>(count));
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: cuda.device_math: no GPU here\n");
    return 77;
  }
  const std::uint32_t stride = argc > 1 && std::strcmp(argv[1], "--all") == 0 ? 1 : 251;
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::printf("%s, sm_%d%d\n", properties.name, properties.major, properties.minor);
  std::int64_t differing = misplaced();
  differing += differences(Exp2{}, stride);
  differing += differences(Log2{}, stride);
  differing += differences(ToF16{}, stride);
  differing += differences(ToBf16{}, stride);
  differing += differences(ToE4m3{}, stride);
  differing += differences(ToE4m3Saturating{}, stride);
  return differing == 0 ? 0 : 1;
}
