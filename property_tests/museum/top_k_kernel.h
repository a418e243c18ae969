#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "property_tests/museum/label.h"

namespace mlacheck::museum {

struct TopKCall {
  const mlacheck_top_k_problem& problem;
  const mlacheck_tensors& tensors;
};

// A row while its members are chosen: indices into scores, ascending.
struct TopKRow {
  const float* scores;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t k;
  std::vector<std::int32_t> above;  // the threshold, the k-th largest: all are members
  std::vector<std::int32_t> ties;   // with it: as many as there is room for, from the first on

  std::int64_t room() const { return k - std::ssize(above); }
  std::int64_t size() const { return end - begin; }
};

// A plain kernel of top-k by a threshold. A hook that is null leaves its step as it is.
struct TopKKernel {
  Label label = {};
  std::int32_t any_tie = 0;  // as declared
  std::int32_t any_order = 0;

  bool (*begin)(const TopKCall&) = nullptr;  // false: nothing is computed, and that is an error
  void (*range)(const TopKCall&, std::int64_t row, TopKRow&) = nullptr;
  // Larger for a larger score, in place of order_of.
  std::uint32_t (*order)(float score) = nullptr;
  void (*pick)(TopKRow&) = nullptr;
  // The selection, [k], before it is stored.
  void (*finish)(const TopKRow&, std::vector<std::int32_t>& selected) = nullptr;
  void (*end)(const TopKCall&) = nullptr;
};

// What an honest kernel does: equal for -0 and +0, least for NaN.
std::uint32_t order_of(float score);
// The row's threshold by `order`: above and ties.
void split_row(TopKRow& row, std::uint32_t (*order)(float));

std::vector<std::int32_t> select(const TopKKernel& kernel, TopKRow& row);
int run(const TopKKernel& kernel, const TopKCall& call);  // 0: well

std::span<const TopKKernel> top_k_value_kernels();  // the honest one first
std::span<const TopKKernel> top_k_row_kernels();

}  // namespace mlacheck::museum
