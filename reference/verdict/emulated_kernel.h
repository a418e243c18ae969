#pragma once

// Test helper: sparse attention kernels of several legal arithmetics, and the faults that a checker
// must see. One query head a call, in plain fp32 loops.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/operators/views.h"

namespace mlacheck::testing {

struct Kernel {
  // Legal arithmetic.
  std::int64_t block = 1;  // products added exactly before they join the accumulator
  bool truncates = false;  // accumulators round toward zero
  std::int64_t tile = 0;   // online softmax over tiles of this many entries; 0: one maximum
  DType weight_dtype = DType::f32;
  bool sums_rounded = false;  // l sums the rounded weights
  std::int64_t splits = 1;
  DType partial_dtype = DType::f32;
  DType out_dtype = DType::bf16;
  // Faults.
  std::int64_t dropped_key = -1;  // this entry is skipped
  std::int64_t stale_value = -1;  // this entry's value is the next entry's
  std::int64_t qk_dim = 0;        // 0: all; fewer: the RoPE dims are dropped
  float scale_factor = 1;         // of the softmax scale
  bool truncates_weights = false;
  float lse_factor = 1, lse_offset = 0;
};

struct Row {
  std::vector<float> out;
  float lse;
};

inline float toward_zero(double x) {
  auto y = static_cast<float>(x);
  if (std::abs(static_cast<double>(y)) > std::abs(x)) y = std::nextafter(y, 0.0f);
  return y;
}

class EmulatedKernel {
 public:
  EmulatedKernel(const Kernel& kernel, std::int64_t qk_dim, std::int64_t v_dim)
      : kernel_(kernel), qk_dim_(qk_dim), v_dim_(v_dim) {}

  // q [qk_dim], rows [n, qk_dim].
  Row run(const float* q, const std::vector<float>& rows, float scale) const {
    const std::int64_t n = static_cast<std::int64_t>(rows.size()) / qk_dim_;
    std::vector<float> scores(static_cast<std::size_t>(n));
    const std::int64_t dims = kernel_.qk_dim > 0 ? kernel_.qk_dim : qk_dim_;
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t d = 0; d < dims; d += kernel_.block) {
        double exact = 0;
        for (std::int64_t i = d; i < std::min(d + kernel_.block, dims); ++i)
          exact += static_cast<double>(q[i]) * static_cast<double>(rows[at(j, i)]);
        sum = add(sum, exact);
      }
      scores[static_cast<std::size_t>(j)] = sum * (scale * kernel_.scale_factor);
    }
    std::vector<Partial> partials;
    const std::int64_t length = (n + kernel_.splits - 1) / kernel_.splits;
    for (std::int64_t begin = 0; begin < n; begin += length)
      partials.push_back(attend(scores, rows, begin, std::min(begin + length, n)));
    return merge(partials);
  }

 private:
  struct Partial {
    float max = -std::numeric_limits<float>::infinity();
    float sum = 0;
    std::vector<float> acc;
  };

  std::size_t at(std::int64_t j, std::int64_t i) const {
    return static_cast<std::size_t>(j * qk_dim_ + i);
  }

  float add(float acc, double exact) const {
    const double sum = static_cast<double>(acc) + exact;
    return kernel_.truncates ? toward_zero(sum) : static_cast<float>(sum);
  }

  float weight(float p) const {
    if (!kernel_.truncates_weights) return round_to(kernel_.weight_dtype, p);
    const float rounded = round_to(kernel_.weight_dtype, p);
    return rounded > p ? rounded - std::ldexp(1.0f, std::ilogb(p) - 7) : rounded;
  }

  Partial attend(const std::vector<float>& scores, const std::vector<float>& rows,
                 std::int64_t begin, std::int64_t end) const {
    Partial part;
    part.acc.resize(static_cast<std::size_t>(v_dim_));
    const std::int64_t tile = kernel_.tile > 0 ? kernel_.tile : end - begin;
    const std::int64_t n = static_cast<std::int64_t>(scores.size());
    for (std::int64_t first = begin; first < end; first += tile) {
      const std::int64_t last = std::min(first + tile, end);
      const float old_max = part.max;
      for (std::int64_t j = first; j < last; ++j)
        if (j != kernel_.dropped_key)
          part.max = std::max(part.max, scores[static_cast<std::size_t>(j)]);
      const float rescale = std::isinf(old_max) ? 0.0f : exp2_of(old_max - part.max);
      part.sum *= rescale;
      for (float& a : part.acc) a *= rescale;
      for (std::int64_t j = first; j < last; j += kernel_.block)
        accumulate(scores, rows, j, std::min(j + kernel_.block, last), n, part);
    }
    return part;
  }

  void accumulate(const std::vector<float>& scores, const std::vector<float>& rows,
                  std::int64_t first, std::int64_t last, std::int64_t n, Partial& part) const {
    std::vector<double> exact(part.acc.size());
    for (std::int64_t j = first; j < last; ++j) {
      if (j == kernel_.dropped_key) continue;
      const float p = exp2_of(scores[static_cast<std::size_t>(j)] - part.max);
      const float rounded = weight(p);
      part.sum += kernel_.sums_rounded ? rounded : p;
      const std::int64_t source = j == kernel_.stale_value ? (j + 1) % n : j;
      for (std::size_t c = 0; c < exact.size(); ++c)
        exact[c] += static_cast<double>(rounded) *
                    static_cast<double>(rows[at(source, static_cast<std::int64_t>(c))]);
    }
    for (std::size_t c = 0; c < exact.size(); ++c) part.acc[c] = add(part.acc[c], exact[c]);
  }

  Row merge(const std::vector<Partial>& partials) const {
    float max = -std::numeric_limits<float>::infinity(), sum = 0;
    for (const Partial& part : partials) max = std::max(max, part.max);
    std::vector<float> acc(static_cast<std::size_t>(v_dim_));
    for (const Partial& part : partials) {
      const float w = exp2_of(part.max - max) * part.sum;
      sum += w;
      for (std::size_t c = 0; c < acc.size(); ++c)
        acc[c] += w * (kernel_.splits > 1 ? round_to(kernel_.partial_dtype, part.acc[c] / part.sum)
                                          : part.acc[c] / part.sum);
    }
    Row row{std::vector<float>(acc.size()), 0};
    for (std::size_t c = 0; c < acc.size(); ++c)
      row.out[c] = round_to(kernel_.out_dtype, acc[c] / sum);
    row.lse = (max + std::log(sum)) * kernel_.lse_factor + kernel_.lse_offset;
    return row;
  }

  static float exp2_of(float x) { return std::exp2(x * 1.44269504f); }

  Kernel kernel_;
  std::int64_t qk_dim_;
  std::int64_t v_dim_;
};

}  // namespace mlacheck::testing
