#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"

namespace mlacheck::legal {

inline float rounded(const mlacheck_accumulation& how, double x) {
  const auto y = static_cast<float>(x);
  const bool away = how.toward_zero != 0 && std::abs(static_cast<double>(y)) > std::abs(x);
  return away ? std::nextafter(y, 0.0f) : y;
}

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
        part[i] = rounded(how_, static_cast<double>(part[i]) + exact_[i]);
    }
    std::ranges::fill(exact_, 0.0);
    in_block_ = 0;
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

// Sum of a[i] * b[i], by the same rules.
inline float dot(const mlacheck_accumulation& how, const float* a, const float* b, std::int64_t n) {
  const bool is_tree = how.order == MLACHECK_SUM_TREE;
  std::array<float, 64> parts = {};
  std::size_t used = is_tree ? 0 : how.order == MLACHECK_SUM_LANES16 ? 16 : 1;
  std::size_t blocks = 0;
  for (std::int64_t first = 0; first < n; first += how.block) {
    double exact = 0;
    for (std::int64_t i = first; i < std::min<std::int64_t>(first + how.block, n); ++i) {
      const double term = static_cast<double>(a[i]) * static_cast<double>(b[i]);
      exact += how.rounds_terms != 0 ? static_cast<double>(static_cast<float>(term)) : term;
    }
    if (is_tree) {
      parts[used++] = static_cast<float>(exact);
      for (std::size_t leaves = ++blocks; leaves % 2 == 0; leaves /= 2, --used)
        parts[used - 2] += parts[used - 1];
    } else {
      float& part = parts[blocks++ % used];
      part = rounded(how, static_cast<double>(part) + exact);
    }
  }
  if (is_tree) {
    for (; used > 1; --used) parts[used - 2] += parts[used - 1];
    return parts[0];
  }
  for (std::size_t half = used / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) parts[lane] += parts[lane + half];
  return parts[0];
}

}  // namespace mlacheck::legal
