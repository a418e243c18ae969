#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"

namespace mlacheck::legal {

// Sums vectors in fp32 as a contract says: the terms of a block are added exactly, then join an
// accumulator: the one, one of 16 in turn, or as the next leaf of a balanced tree.
class VectorSum {
 public:
  VectorSum(const mlacheck_accumulation& how, std::int64_t width)
      : how_(how), width_(static_cast<std::size_t>(width)), exact_(width_) {
    if (how_.order != MLACHECK_SUM_TREE)
      parts_.resize(how_.order == MLACHECK_SUM_LANES16 ? 16 : 1, std::vector<float>(width_));
  }

  // factor * x
  void add(float factor, const float* x) {
    for (std::size_t i = 0; i < width_; ++i) {
      const double term = static_cast<double>(factor) * static_cast<double>(x[i]);
      exact_[i] += how_.rounds_terms != 0 ? static_cast<double>(static_cast<float>(term)) : term;
    }
    if (++in_block_ == how_.block) flush();
  }
  void scale(float factor) {
    flush();
    for (std::vector<float>& part : parts_)
      for (float& x : part) x *= factor;
  }
  std::vector<float> total() {
    flush();
    if (how_.order == MLACHECK_SUM_TREE) {
      while (parts_.size() > 1) merge_last();
      return parts_.empty() ? std::vector<float>(width_) : parts_[0];
    }
    for (std::size_t half = parts_.size() / 2; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) add_to(parts_[lane], parts_[lane + half]);
    return parts_[0];
  }

 private:
  void flush() {
    if (in_block_ == 0) return;
    if (how_.order == MLACHECK_SUM_TREE) {
      parts_.emplace_back(exact_.begin(), exact_.end());
      // As many merges as the number of leaves ends in zeros.
      for (std::int64_t leaves = ++blocks_; leaves % 2 == 0; leaves /= 2) merge_last();
    } else {
      std::vector<float>& part = parts_[static_cast<std::size_t>(blocks_++) % parts_.size()];
      for (std::size_t i = 0; i < width_; ++i)
        part[i] = rounded(static_cast<double>(part[i]) + exact_[i]);
    }
    std::ranges::fill(exact_, 0.0);
    in_block_ = 0;
  }
  float rounded(double x) const {
    const auto y = static_cast<float>(x);
    const bool away = how_.toward_zero != 0 && std::abs(static_cast<double>(y)) > std::abs(x);
    return away ? std::nextafter(y, 0.0f) : y;
  }
  static void add_to(std::vector<float>& a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  }
  void merge_last() {
    add_to(parts_[parts_.size() - 2], parts_.back());
    parts_.pop_back();
  }

  mlacheck_accumulation how_;
  std::size_t width_;
  std::vector<double> exact_;
  std::vector<std::vector<float>> parts_;
  std::int64_t in_block_ = 0;
  std::int64_t blocks_ = 0;
};

// Sum of a[i] * b[i].
inline float dot(const mlacheck_accumulation& how, const float* a, const float* b, std::int64_t n) {
  VectorSum sum(how, 1);
  for (std::int64_t i = 0; i < n; ++i) sum.add(a[i], b + i);
  return sum.total()[0];
}

}  // namespace mlacheck::legal
