#pragma once

// Test helper: sparse attention problems with their own storage, from a counter-based generator of
// the tests' own.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "reference/operators/sparse_attention.h"

namespace mlacheck::testing {

// Number i of a stream, each by itself (splitmix64).
struct CounterRandom {
  std::uint64_t seed;

  std::uint64_t bits(std::uint64_t i) const {
    std::uint64_t z = seed * 0xD1342543DE82EF95u + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform(std::uint64_t i) const {  // (0, 1)
    return (static_cast<double>(bits(i) >> 12) + 0.5) * 0x1p-52;
  }
  double normal(std::uint64_t i) const {
    return std::sqrt(-2 * std::log(uniform(2 * i))) *
           std::cos(2 * std::numbers::pi * uniform(2 * i + 1));
  }
  std::int64_t below(std::uint64_t i, std::int64_t n) const {
    return static_cast<std::int64_t>(bits(i) % static_cast<std::uint64_t>(n));
  }
};

// What the rows look like.
enum class Regime {
  flat,      // A: q N(0, 1), kv N(0, 0.1^2)
  peaky,     // B: logits with a standard deviation of 4.5
  biased,    // C: values with mean 1 and standard deviation 0.3
  sink_key,  // D: one key 8 above the others, with a tiny value
};

struct TestProblem {
  SparseAttentionProblem problem;
  std::vector<float> q;   // [T, H, qk_dim], values of q_dtype
  std::vector<float> kv;  // [N, qk_dim]
  std::vector<std::int32_t> indices;
  std::vector<std::int32_t> topk_length;
  std::vector<float> attn_sink;

  // The problem, with its views on this object's storage.
  const SparseAttentionProblem& view() {
    problem.q = {q.data(), DType::f32, problem.heads * problem.qk_dim, problem.qk_dim};
    problem.kv = flat_rows(kv.data(), DType::f32,
                           static_cast<std::int64_t>(kv.size()) / problem.qk_dim, problem.qk_dim);
    problem.indices = indices.data();
    problem.index_stride = problem.topk;
    problem.topk_length = topk_length.empty() ? nullptr : topk_length.data();
    problem.attn_sink = attn_sink.empty() ? nullptr : attn_sink.data();
    return problem;
  }

  const float* query(std::int64_t t, std::int64_t h) const {
    return q.data() + (t * problem.heads + h) * problem.qk_dim;
  }

  // The rows that token t attends to, [n, qk_dim].
  std::vector<float> gathered(std::int64_t t) {
    std::vector<float> rows;
    for (const std::int32_t slot : present_slots(view(), t))
      rows.insert(rows.end(), kv.begin() + slot * problem.qk_dim,
                  kv.begin() + (slot + 1) * problem.qk_dim);
    return rows;
  }
};

struct TestShape {
  std::int64_t tokens = 1;
  std::int64_t heads = 1;
  std::int64_t keys = 64;  // slots and entries
  std::int64_t qk_dim = 576;
  std::int64_t v_dim = 512;
};

inline TestProblem make_problem(Regime regime, const TestShape& shape, std::uint64_t seed) {
  TestProblem test;
  test.problem.tokens = shape.tokens;
  test.problem.heads = shape.heads;
  test.problem.topk = shape.keys;
  test.problem.qk_dim = shape.qk_dim;
  test.problem.v_dim = shape.v_dim;
  // 1/16 for 576 dimensions; logits as large for fewer.
  test.problem.sm_scale =
      static_cast<float>(std::sqrt(576.0 / static_cast<double>(shape.qk_dim)) / 16);
  const CounterRandom q_random{seed * 3}, kv_random{seed * 3 + 1};
  const double q_size = regime == Regime::peaky ? 3 : 1;
  test.q.resize(static_cast<std::size_t>(shape.tokens * shape.heads * shape.qk_dim));
  test.kv.resize(static_cast<std::size_t>(shape.keys * shape.qk_dim));
  for (std::size_t i = 0; i < test.q.size(); ++i) {
    const auto d = static_cast<std::int64_t>(i) % shape.qk_dim;
    // In `sink_key` every head has the same last dimensions, so that one key can suit them all.
    const auto which = regime == Regime::sink_key && d >= shape.v_dim
                           ? static_cast<std::uint64_t>(d)
                           : static_cast<std::uint64_t>(i) + 1000;
    test.q[i] = round_to(DType::bf16, static_cast<float>(q_size * q_random.normal(which)));
  }
  for (std::size_t i = 0; i < test.kv.size(); ++i) {
    const double x = kv_random.normal(i);
    const auto d = static_cast<std::int64_t>(i) % shape.qk_dim;
    const double value = regime == Regime::peaky                       ? x
                         : regime == Regime::biased && d < shape.v_dim ? 1 + 0.3 * x
                                                                       : 0.1 * x;
    test.kv[i] = round_to(DType::bf16, static_cast<float>(value));
  }
  if (regime == Regime::sink_key) {
    double squares = 0;
    for (std::int64_t d = shape.v_dim; d < shape.qk_dim; ++d)
      squares += std::pow(static_cast<double>(test.q[static_cast<std::size_t>(d)]), 2);
    const double factor = 8 / (squares * static_cast<double>(test.problem.sm_scale));
    for (std::int64_t d = 0; d < shape.qk_dim; ++d) {
      float& k = test.kv[static_cast<std::size_t>(d)];
      k = d < shape.v_dim ? round_to(DType::bf16, k * 0.01f)
                          : round_to(DType::bf16, static_cast<float>(factor) *
                                                      test.q[static_cast<std::size_t>(d)]);
    }
  }
  for (std::int64_t t = 0; t < shape.tokens; ++t)
    for (std::int64_t j = 0; j < shape.keys; ++j)
      test.indices.push_back(static_cast<std::int32_t>(j));
  return test;
}

}  // namespace mlacheck::testing
