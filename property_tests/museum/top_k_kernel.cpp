#include "property_tests/museum/top_k_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mlacheck::museum {

std::uint32_t order_of(float score) {
  if (std::isnan(score)) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // -0 becomes +0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

void split_row(TopKRow& row, std::uint32_t (*order)(float)) {
  row.above.clear();
  row.ties.clear();
  if (row.k <= 0 || row.size() <= 0) return;
  std::vector<std::uint32_t> keys;
  for (std::int64_t j = row.begin; j < row.end; ++j) keys.push_back(order(row.scores[j]));
  std::uint32_t threshold = 0;
  if (row.k < row.size()) {
    std::vector<std::uint32_t> sorted = keys;
    const auto kth = sorted.begin() + (row.k - 1);
    std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
    threshold = *kth;
  }
  for (std::int64_t j = 0; j < std::ssize(keys); ++j) {
    const std::uint32_t key = keys[static_cast<std::size_t>(j)];
    const auto index = static_cast<std::int32_t>(row.begin + j);
    if (key > threshold) row.above.push_back(index);
    if (key == threshold) row.ties.push_back(index);
  }
}

std::vector<std::int32_t> select(const TopKKernel& kernel, TopKRow& row) {
  split_row(row, kernel.order != nullptr ? kernel.order : order_of);
  if (kernel.pick != nullptr) kernel.pick(row);
  std::vector<std::int32_t> selected = row.above;
  selected.insert(selected.end(), row.ties.begin(),
                  row.ties.begin() + std::clamp<std::int64_t>(row.room(), 0, std::ssize(row.ties)));
  std::ranges::sort(selected);
  selected.resize(static_cast<std::size_t>(row.k), -1);
  if (kernel.finish != nullptr) kernel.finish(row, selected);
  return selected;
}

int run(const TopKKernel& kernel, const TopKCall& call) {
  if (kernel.begin != nullptr && !kernel.begin(call)) return 1;
  const auto& p = call.problem;
  const mlacheck_tensors& t = call.tensors;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    TopKRow row = {t.scores_in + i * p.score_stride,
                   t.range_begin != nullptr ? t.range_begin[i] : 0,
                   t.range_end != nullptr ? t.range_end[i] : p.columns,
                   p.k,
                   {},
                   {}};
    if (kernel.range != nullptr) kernel.range(call, i, row);
    std::ranges::copy(select(kernel, row), t.selected + i * p.k);
  }
  if (kernel.end != nullptr) kernel.end(call);
  return 0;
}

}  // namespace mlacheck::museum
