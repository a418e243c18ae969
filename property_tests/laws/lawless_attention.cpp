#include "property_tests/laws/lawless_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tools/plugins/problem_views.h"

namespace mlacheck::lawless {

using namespace plugin;

namespace {

float next_float(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()); }

// The answer to the problem after `change`, which may replace its indices.
template <class Change>
SparseAttentionResult attend(const Attention& p, const mlacheck_tensors& t, Change change) {
  AttentionView view(p, t);
  std::vector<std::int32_t> indices;
  for (std::int64_t row = 0; row < p.tokens; ++row)
    indices.insert(indices.end(), t.indices + row * p.index_stride,
                   t.indices + row * p.index_stride + p.topk);
  view.problem.indices = indices.data();
  view.problem.index_stride = p.topk;
  change(view.problem, indices);
  return sparse_attention(view.problem);
}

SparseAttentionResult attend(const Attention& p, const mlacheck_tensors& t) {
  return attend(p, t, [](auto&, auto&) {});
}

// The answer to the problem with all of its rows and queries in fp32 after `change`, one by one.
template <class ChangeRow, class ChangeQuery>
SparseAttentionResult attend_widened(const Attention& p, const mlacheck_tensors& t,
                                     ChangeRow change_row, ChangeQuery change_query) {
  std::vector<float> rows(static_cast<std::size_t>(p.kv.slots * p.qk_dim));
  std::vector<float> q(static_cast<std::size_t>(p.tokens * p.heads * p.qk_dim));
  return attend(p, t, [&](SparseAttentionProblem& problem, std::vector<std::int32_t>& indices) {
    for (std::int64_t slot = 0; slot < p.kv.slots; ++slot) {
      float* row = rows.data() + slot * p.qk_dim;
      load_row(row_address(problem.kv, slot), problem.kv.dtype, p.qk_dim, row);
      change_row(row, slot, indices);
    }
    for (std::int64_t i = 0; i < p.tokens * p.heads; ++i) {
      float* query = q.data() + i * p.qk_dim;
      load_row(query_address(problem.q, i / p.heads, i % p.heads), problem.q.dtype, p.qk_dim,
               query);
      change_query(query);
    }
    problem.kv = flat_rows(rows.data(), DType::f32, p.kv.slots, p.qk_dim);
    problem.q = {q.data(), DType::f32, p.heads * p.qk_dim, p.qk_dim};
  });
}

constexpr auto kAsItIs = [](float*) {};

void favours_a_row(std::int64_t favoured, const Attention& p, const mlacheck_tensors& t) {
  SparseAttentionResult result = attend(p, t);
  const std::int64_t elements = p.heads * p.v_dim;
  for (std::int64_t i = 0; p.tokens > 1 && favoured < p.tokens && i < elements; ++i) {
    float& x = result.out[static_cast<std::size_t>(favoured * elements + i)];
    x = next_float(x);
  }
  store(result, p, t);
}

}  // namespace

void favours_row_0(const Attention& p, const mlacheck_tensors& t) { favours_a_row(0, p, t); }
void favours_row_1(const Attention& p, const mlacheck_tensors& t) { favours_a_row(1, p, t); }

// Takes entries for ascending: one below the one before it is lost.
void expects_ascending(const Attention& p, const mlacheck_tensors& t) {
  store(
      attend(p, t,
             [](const SparseAttentionProblem& problem, std::vector<std::int32_t>& indices) {
               for (std::size_t i = indices.size(); i-- > 1;)
                 if (i % static_cast<std::size_t>(problem.topk) != 0 && indices[i] < indices[i - 1])
                   indices[i] = -1;
             }),
      p, t);
}

// Only negative entries are absent: the largest integer wraps to slot 0.
void wraps_the_largest(const Attention& p, const mlacheck_tensors& t) {
  store(attend(p, t,
               [](auto&, std::vector<std::int32_t>& indices) {
                 std::replace(indices.begin(), indices.end(),
                              std::numeric_limits<std::int32_t>::max(), 0);
               }),
        p, t);
}

// A row one longer than whole tiles loses the tile before.
void drops_a_tile(const Attention& p, const mlacheck_tensors& t) {
  store(attend(p, t,
               [](const SparseAttentionProblem& problem, std::vector<std::int32_t>& indices) {
                 if (problem.topk % 64 != 1) return;
                 for (std::int64_t row = 0; row < problem.tokens; ++row)
                   std::fill_n(indices.begin() + (row + 1) * problem.topk - 5, 4, -1);
               }),
        p, t);
}

void ignores_length(const Attention& p, const mlacheck_tensors& t) {
  store(attend(p, t, [](SparseAttentionProblem& problem, auto&) { problem.topk_length = nullptr; }),
        p, t);
}

// Page ids have four bits.
void clamps_pages(const Attention& p, const mlacheck_tensors& t) {
  store(attend(p, t,
               [](const SparseAttentionProblem& problem, std::vector<std::int32_t>& indices) {
                 const auto page = static_cast<std::int32_t>(problem.kv.page_size);
                 for (std::int32_t& slot : indices)
                   if (slot >= 0) slot = std::min(slot / page, 15) * page + slot % page;
               }),
        p, t);
}

void empty_lse_is_zero(const Attention& p, const mlacheck_tensors& t) {
  SparseAttentionResult result = attend(p, t);
  for (float& lse : result.lse)
    if (std::isinf(lse)) lse = 0;
  store(result, p, t);
}

// As values of e4m3 are.
void saturates_at_448(const Attention& p, const mlacheck_tensors& t) {
  store(attend_widened(
            p, t,
            [&](float* row, std::int64_t, auto&) {
              for (std::int64_t i = 0; i < p.v_dim; ++i) row[i] = std::clamp(row[i], -448.f, 448.f);
            },
            kAsItIs),
        p, t);
}

// A raw product of q and k below a sentinel counts as masked.
void masks_by_a_sentinel(const Attention& p, const mlacheck_tensors& t) {
  SparseAttentionResult result = attend(p, t);
  for (std::size_t i = 0; i < result.lse.size(); ++i)
    if (result.max_logit[i] / p.sm_scale > 1000) result.lse[i] += 0.5f;
  store(result, p, t);
}

void drops_odd_elements(const Attention& p, const mlacheck_tensors& t) {
  store(attend_widened(
            p, t, [](float*, std::int64_t, auto&) {},
            [&](float* query) {
              for (std::int64_t i = 1; i < p.qk_dim; i += 2) query[i] = 0;
            }),
        p, t);
}

// Slots that no entry names weigh 0, but are multiplied.
void multiplies_by_zero(const Attention& p, const mlacheck_tensors& t) {
  SparseAttentionResult result = attend(p, t);
  const AttentionView view(p, t);
  std::vector<float> row(static_cast<std::size_t>(p.qk_dim));
  for (std::int64_t slot = 0; slot < p.kv.slots; ++slot) {
    load_row(row_address(view.problem.kv, slot), view.problem.kv.dtype, p.qk_dim, row.data());
    for (float& x : result.out) x += 0 * row[0];
  }
  store(result, p, t);
}

// What entry 1234 of a row names is read from the slot after it.
void misreads_entry_1234(const Attention& p, const mlacheck_tensors& t) {
  store(attend(p, t,
               [](const SparseAttentionProblem& problem, std::vector<std::int32_t>& indices) {
                 for (std::int64_t row = 0; problem.topk > 1234 && row < problem.tokens; ++row) {
                   std::int32_t& slot =
                       indices[static_cast<std::size_t>(row * problem.topk + 1234)];
                   if (slot >= 0) slot = (slot + 1) % static_cast<std::int32_t>(problem.kv.slots);
                 }
               }),
        p, t);
}

// Every sixth call of the process rounds otherwise.
void varies_by_launch(const Attention& p, const mlacheck_tensors& t) {
  static int launch = 0;
  SparseAttentionResult result = attend(p, t);
  if (++launch % 6 == 0)
    for (float& x : result.out) x = next_float(x);
  store(result, p, t);
}

// Rows of a former, larger call stay in a table that is only ever made larger.
void keeps_its_scratch(const Attention& p, const mlacheck_tensors& t) {
  static std::int64_t most = 0;
  SparseAttentionResult result = attend(p, t);
  if (p.topk < most)
    for (float& x : result.lse) x = next_float(x);
  most = std::max(most, p.topk);
  store(result, p, t);
}

}  // namespace mlacheck::lawless
