#include "reference/operators/sparse_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "reference/arithmetic/exp2.h"
#include "reference/operators/sparse_attention_case.h"

namespace mlacheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Real = long double;

Real wide(float x) { return static_cast<Real>(x); }

// The formula of one (t, h) in long double, and how far fp32 may be from it.
struct Exact {
  std::vector<Real> out, out_radius;
  Real lse = wide(-kInfinity), lse_radius = 0, max = wide(-kInfinity), max_radius = 0;
};

Exact exact_row(const AttentionCase& c, std::int64_t t, std::int64_t h) {
  constexpr Real u = 0x1p-24L;
  Exact row;
  row.out.assign(index_of(c.v_dim), 0);
  row.out_radius.assign(index_of(c.v_dim), 0);
  const std::int64_t length = c.lengths.empty() ? c.topk : c.lengths[index_of(t)];
  std::vector<const float*> keys;
  std::vector<Real> scores;
  Real score_radius = 0, lowest = 0, total = 0, sink_factor = 1;
  for (std::int64_t j = 0; j < length; ++j) {
    const std::int64_t slot = c.indices[index_of(t * c.topk + j)];
    if (slot < 0 || slot >= c.slots) continue;
    keys.push_back(c.kv.data() + slot * c.qk_dim);
    Real dot = 0, magnitude = 0;
    for (std::int64_t d = 0; d < c.qk_dim; ++d) {
      const Real product =
          wide(c.q[index_of((t * c.heads + h) * c.qk_dim + d)]) * wide(keys.back()[d]);
      dot += product;
      magnitude += std::abs(product);
    }
    scores.push_back(dot * wide(c.sm_scale));
    score_radius = std::max(
        score_radius, static_cast<Real>(c.qk_dim / 16 + 8) * u * magnitude * wide(c.sm_scale));
    row.max = std::max(row.max, scores.back());
    lowest = std::min(lowest, scores.back());
  }
  if (scores.empty()) return row;
  std::vector<Real> weights;
  for (const Real s : scores) total += weights.emplace_back(std::exp(s - row.max));
  row.lse = row.max + std::log(total);
  // Of a weight: two scores, their difference, times log2e, exp2; of a sum: its lanes and its tree.
  const Real relative = 2 * score_radius + 4 * (row.max - lowest) * u + 4 * u +
                        (static_cast<Real>(scores.size()) / 16 + 6) * u;
  row.max_radius = score_radius;
  row.lse_radius = score_radius + relative + 4 * u * (std::abs(row.max) + std::log(total));
  if (!c.sink.empty()) sink_factor = 1 / (1 + std::exp(wide(c.sink[index_of(h)]) - row.lse));
  for (std::int64_t d = 0; d < c.v_dim; ++d) {
    Real out = 0, magnitude = 0;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const Real term = weights[j] / total * wide(keys[j][d]);
      out += term;
      magnitude += std::abs(term);
    }
    row.out[index_of(d)] = out * sink_factor;
    row.out_radius[index_of(d)] = (2 * relative + 16 * u + row.lse_radius) * magnitude;
  }
  return row;
}

// The largest |difference| / radius; at most 1 where the result is right.
Real worst_ratio(const AttentionCase& c, const SparseAttentionResult& result) {
  Real worst = 0;
  const auto judge = [&](float got, Real expected, Real radius) {
    if (wide(got) == expected) return;
    const Real ratio = std::abs(wide(got) - expected) / radius;
    worst = ratio <= worst ? worst : ratio;  // NaN counts
  };
  for (std::int64_t t = 0; t < c.tokens; ++t)
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const Exact row = exact_row(c, t, h);
      const std::int64_t i = t * c.heads + h;
      judge(result.lse[index_of(i)], row.lse, row.lse_radius);
      judge(result.max_logit[index_of(i)], row.max, row.max_radius);
      for (std::int64_t d = 0; d < c.v_dim; ++d) {
        const Real expected = row.out[index_of(d)];
        const Real half_ulp = c.out_dtype == DType::f32   ? 0x1p-24L
                              : c.out_dtype == DType::f16 ? 0x1p-11L
                                                          : 0x1p-8L;
        judge(result.out[index_of(i * c.v_dim + d)], expected,
              row.out_radius[index_of(d)] * 1.01L + half_ulp * std::abs(expected) + 0x1p-25L);
      }
    }
  return worst;
}

class Shapes : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t>> {};

TEST_P(Shapes, AgreeWithTheFormula) {
  const auto [heads, topk] = GetParam();
  std::uint64_t seed = 1;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const bool paged : {false, true})
      for (const bool with_sink : {false, true}) {
        AttentionCase c;
        c.heads = heads;
        c.topk = topk;
        c.dtype = c.out_dtype = dtype;
        c.sm_scale = 1.5f;
        if (paged) c.paging = {7, 3, 5};
        if (with_sink)
          for (std::int64_t h = 0; h < heads; ++h)
            c.sink.push_back(static_cast<float>(h % 7) - 3.0f);
        c.lengths = {static_cast<std::int32_t>(topk), static_cast<std::int32_t>(topk / 2), 0};
        c.fill(++seed);
        const Real ratio = worst_ratio(c, c.run());
        EXPECT_LE(ratio, 1) << name_of(dtype) << (paged ? " paged" : " flat") << " sink "
                            << with_sink;
      }
}

INSTANTIATE_TEST_SUITE_P(HeadsAndTopk, Shapes,
                         testing::Combine(testing::Values(1, 11, 17, 64, 66),
                                          testing::Values(0, 1, 15, 16, 17, 100)));

TEST(SparseAttention, RealSizeAgreesWithTheFormula) {
  AttentionCase c;
  c.tokens = 1;
  c.heads = 3;
  c.topk = 2048;
  c.slots = 3000;
  c.qk_dim = 576;
  c.v_dim = 512;
  c.fill(5);
  EXPECT_LE(worst_ratio(c, c.run()), 1);
}

// What a kernel may get wrong, done to the problem: the comparison must see each.
TEST(SparseAttention, TheComparisonSeesFaults) {
  AttentionCase c;
  c.topk = 100;
  c.sm_scale = 1.5f;
  c.sink = {1.0f, -1.0f};
  c.lengths = {100, 90, 80};
  c.fill(3);
  ASSERT_LE(worst_ratio(c, c.run()), 1);
  using Fault = std::function<void(AttentionCase&, SparseAttentionProblem&)>;
  const std::pair<const char*, Fault> faults[] = {
      {"scale", [](auto&, auto& p) { p.sm_scale *= 1.0001f; }},
      {"log2 scores", [](auto&, auto& p) { p.sm_scale *= kLog2E; }},
      {"short dot", [](auto&, auto& p) { p.qk_dim -= 1; }},
      {"no topk_length", [](auto&, auto& p) { p.topk_length = nullptr; }},
      {"no sink", [](auto&, auto& p) { p.attn_sink = nullptr; }},
      {"one entry lost",
       [](auto& d, auto&) {
         *std::find_if(d.indices.begin(), d.indices.end(), [](auto i) { return i >= 0; }) = -1;
       }},
      {"-1 is slot 0",
       [](auto& d, auto&) { std::replace(d.indices.begin(), d.indices.end(), -1, 0); }},
      {"duplicates count once",
       [](auto& d, auto&) {
         for (auto i = d.indices.begin(); i != d.indices.begin() + 100; ++i)
           if (std::find(d.indices.begin(), i, *i) != i) *i = -1;
       }},
      {"sinks swapped", [](auto& d, auto&) { std::swap(d.sink[0], d.sink[1]); }},
      {"slots off by one",
       [](auto&, auto& p) {
         p.kv.slots -= 1;
         p.kv.data = row_address(p.kv, 1);
       }},
  };
  for (const auto& [name, fault] : faults) {
    AttentionCase mutated = c;
    SparseAttentionProblem problem = mutated.problem();
    fault(mutated, problem);
    EXPECT_GT(worst_ratio(c, sparse_attention(problem)), 1) << name;
  }
}

}  // namespace
}  // namespace mlacheck
