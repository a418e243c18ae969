#pragma once

#include "reference/arithmetic/dot_block.h"

namespace mlacheck::detail {

// dot_block in vectors of kWidth lanes and tiles of kTokens x kOutputs dots, whose sums stay in
// registers. One instance is compiled for each instruction set, by the file that names it alone;
// nothing of the standard library is called: a shared inline function compiled there must not reach
// other callers.
template <int kWidth, int kTokens, int kOutputs>
struct DotKernel {
  static constexpr int kLanes = 16;  // of ordered_sum.h
  static constexpr int kVectors = kLanes / kWidth;
  static constexpr int kDepth = 1024;  // elements of a row at a time: a tile's weights stay in L1
  static constexpr int kTokenBlock = 64, kOutputBlock = 16;
  static_assert(kTokenBlock % kTokens == 0 && kOutputBlock % kOutputs == 0);

  // gcc 12 drops the attribute of a template where it stands behind the type.
  using Vector __attribute__((vector_size(sizeof(float) * kWidth))) = float;
  static_assert(sizeof(Vector) == sizeof(float) * kWidth);
  using Four = float __attribute__((vector_size(16)));
  using Sums = float[kTokenBlock][kOutputBlock][kLanes];

  static void run(const DotBlock& all) {
    for (std::int64_t t = 0; t < all.tokens; t += kTokenBlock)
      for (std::int64_t o = 0; o < all.outputs; o += kOutputBlock) {
        DotBlock part = all;
        part.x += t * all.x_stride;
        part.w += o * all.n;
        part.y += t * all.y_stride + o;
        part.tokens = least(kTokenBlock, all.tokens - t);
        part.outputs = least(kOutputBlock, all.outputs - o);
        run_part(part);
      }
  }

 private:
  static std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

  static void run_part(const DotBlock& b) {
    alignas(64) Sums sums;
    const std::int64_t whole = b.n / kLanes * kLanes;
    std::int64_t i = 0;
    do {
      const std::int64_t end = least(whole, i + kDepth);
      std::int64_t o = 0;
      for (; o + kOutputs <= b.outputs; o += kOutputs) tiles<kOutputs>(b, o, i, end, sums);
      for (; o < b.outputs; ++o) tiles<1>(b, o, i, end, sums);
      i = end;
    } while (i < whole);
    for (std::int64_t t = 0; t < b.tokens; ++t)
      for (std::int64_t o = 0; o < b.outputs; ++o) {
        float* lanes = sums[t][o];
        for (std::int64_t l = 0; whole + l < b.n; ++l)
          lanes[l] += b.x[t * b.x_stride + whole + l] * b.w[o * b.n + whole + l];
        b.y[t * b.y_stride + o] = tree(lanes);
      }
  }

  template <int kCount>
  static void tiles(const DotBlock& b, std::int64_t o, std::int64_t begin, std::int64_t end,
                    Sums& sums) {
    std::int64_t t = 0;
    for (; t + kTokens <= b.tokens; t += kTokens) tile<kTokens, kCount>(b, t, o, begin, end, sums);
    for (; t < b.tokens; ++t) tile<1, kCount>(b, t, o, begin, end, sums);
  }

  // Elements [begin, end) of kR x kC dots; the sums before them are in `sums`.
  template <int kR, int kC>
  static void tile(const DotBlock& b, std::int64_t t, std::int64_t o, std::int64_t begin,
                   std::int64_t end, Sums& sums) {
    Vector sum[kR][kC][kVectors] = {};
    if (begin > 0)
      for (int r = 0; r < kR; ++r)
        for (int c = 0; c < kC; ++c)
          for (int v = 0; v < kVectors; ++v)
            sum[r][c][v] = load<Vector>(sums[t + r][o + c] + v * kWidth);
    const float* x = b.x + t * b.x_stride;
    const float* w = b.w + o * b.n;
    for (std::int64_t i = begin; i < end; i += kLanes)
      for (int v = 0; v < kVectors; ++v) {
        Vector x_v[kR];
        for (int r = 0; r < kR; ++r) x_v[r] = load<Vector>(x + r * b.x_stride + i + v * kWidth);
        for (int c = 0; c < kC; ++c) {
          const Vector w_v = load<Vector>(w + c * b.n + i + v * kWidth);
          for (int r = 0; r < kR; ++r) sum[r][c][v] += x_v[r] * w_v;
        }
      }
    for (int r = 0; r < kR; ++r)
      for (int c = 0; c < kC; ++c)
        for (int v = 0; v < kVectors; ++v)
          __builtin_memcpy(sums[t + r][o + c] + v * kWidth, &sum[r][c][v], sizeof(Vector));
  }

  static float tree(const float* lanes) {
    const Four four = (load<Four>(lanes) + load<Four>(lanes + 8)) +
                      (load<Four>(lanes + 4) + load<Four>(lanes + 12));
    return (four[0] + four[2]) + (four[1] + four[3]);
  }

  template <class To>
  static To load(const float* from) {
    To v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  }
};

#if defined(__x86_64__)
void dot_block_avx2(const DotBlock& block);
void dot_block_avx512(const DotBlock& block);
#endif

}  // namespace mlacheck::detail
