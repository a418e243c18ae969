// Kernels that compute as the reference does, but for one thing each that a law shows and that judging
// the same recipe alone does not: what the laws' test runs.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "reference/operators/top_k.h"
#include "tools/plugins/problem_views.h"
#include "tools/plugins/reference_declaration.h"

namespace {

using namespace mlacheck;
using namespace mlacheck::plugin;

float next_float(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()); }

// ---- sparse_attention ----

using Attention = mlacheck_sparse_attention_problem;

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

// Adds to the last bit of a row that stands first in a batch, or second.
template <std::int64_t Row>
void favours_a_row(const Attention& p, const mlacheck_tensors& t) {
  SparseAttentionResult result = attend(p, t);
  const std::int64_t elements = p.heads * p.v_dim;
  for (std::int64_t i = 0; p.tokens > 1 && Row < p.tokens && i < elements; ++i) {
    float& x = result.out[static_cast<std::size_t>(Row * elements + i)];
    x = next_float(x);
  }
  store(result, p, t);
}

void empty_lse_is_zero(const Attention& p, const mlacheck_tensors& t) {
  SparseAttentionResult result = attend(p, t);
  for (float& lse : result.lse)
    if (std::isinf(lse)) lse = 0;
  store(result, p, t);
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

// ---- index_scores ----

using Scores = mlacheck_index_scores_problem;

// Skips a last head without a weight in row 0, in every row.
void skips_the_last_head(const Scores& p, const mlacheck_tensors& t) {
  std::vector<float> weights(t.weights, t.weights + p.tokens * p.heads);
  for (std::int64_t row = 0; row < p.tokens; ++row)
    weights[static_cast<std::size_t>((row + 1) * p.heads - 1)] = 0;
  IndexScoresProblem problem = view_of(p, t);
  problem.weights = weights.data();
  store(index_scores(problem), p, t);
}

void narrows_weights(const Scores& p, const mlacheck_tensors& t) {
  std::vector<float> weights(t.weights, t.weights + p.tokens * p.heads);
  for (float& x : weights) x = round_to(DType::f16, x);
  IndexScoresProblem problem = view_of(p, t);
  problem.weights = weights.data();
  store(index_scores(problem), p, t);
}

// Where the keys are no whole tiles, the last tile's first key is scored with the one after it.
void misreads_the_tail(const Scores& p, const mlacheck_tensors& t) {
  std::vector<float> scores = index_scores(view_of(p, t));
  const std::int64_t tail = p.key_count - p.key_count % 64;
  for (std::int64_t row = 0; tail + 1 < p.key_count && row < p.tokens; ++row)
    scores[static_cast<std::size_t>(row * p.key_count + tail)] =
        scores[static_cast<std::size_t>(row * p.key_count + tail + 1)];
  store(scores, p, t);
}

void clamps_blocks(const Scores& p, const mlacheck_tensors& t) {
  IndexScoresProblem problem = view_of(p, t);
  std::vector<std::int32_t> table(
      t.block_table,
      t.block_table +
          (t.block_table == nullptr ? 0 : problem.requests * problem.block_table_stride));
  for (std::int32_t& block : table) block = std::min(block, 7);
  if (t.block_table != nullptr) problem.block_table = table.data();
  store(index_scores(problem), p, t);
}

// ---- top_k ----

using TopK = mlacheck_top_k_problem;

template <class Change>
void select(const TopK& p, const mlacheck_tensors& t, Change change) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    std::vector<float> scores(t.scores_in + row * p.score_stride,
                              t.scores_in + row * p.score_stride + p.columns);
    std::int64_t begin = t.range_begin != nullptr ? t.range_begin[row] : 0;
    const std::int64_t end = t.range_end != nullptr ? t.range_end[row] : p.columns;
    change(scores, begin);
    top_k(scores.data(), begin, end, p.k, t.selected + row * p.k);
  }
}

void tells_zeros_apart(const TopK& p, const mlacheck_tensors& t) {
  select(p, t, [](std::vector<float>& scores, auto&) {
    for (float& x : scores)
      if (x == 0) x = std::signbit(x) ? -1e-30f : 0.0f;
  });
}

void narrows_scores(const TopK& p, const mlacheck_tensors& t) {
  select(p, t, [](std::vector<float>& scores, auto&) {
    for (float& x : scores) x = round_to(DType::f16, x);
  });
}

// Reads four at a time: where that does not come out even, the first ones are lost.
void reads_in_fours(const TopK& p, const mlacheck_tensors& t) {
  select(p, t, [](std::vector<float>& scores, std::int64_t&) {
    std::fill_n(scores.begin(), scores.size() % 4, -std::numeric_limits<float>::infinity());
  });
}

void counts_from_the_range(const TopK& p, const mlacheck_tensors& t) {
  select(p, t, [](auto&, auto&) {});
  for (std::int64_t i = 0; t.range_begin != nullptr && i < p.rows * p.k; ++i)
    if (t.selected[i] >= 0) t.selected[i] -= t.range_begin[i / p.k];
}

// ---- The library ----

struct Fault {
  const char* name;
  std::int32_t op;
  void (*attention)(const Attention&, const mlacheck_tensors&) = nullptr;
  void (*scores)(const Scores&, const mlacheck_tensors&) = nullptr;
  void (*top_k)(const TopK&, const mlacheck_tensors&) = nullptr;
  std::int32_t promises = 1;  // without, a case is judged by one call
};

constexpr Fault of_attention(const char* name, decltype(Fault::attention) run) {
  return {name, MLACHECK_SPARSE_ATTENTION, run};
}
constexpr Fault of_scores(const char* name, decltype(Fault::scores) run) {
  return {name, MLACHECK_INDEX_SCORES, nullptr, run};
}
constexpr Fault of_top_k(const char* name, decltype(Fault::top_k) run) {
  return {name, MLACHECK_TOP_K, nullptr, nullptr, run};
}

constexpr Fault without_promises(Fault fault) {
  fault.promises = 0;
  return fault;
}

constexpr mlacheck_contract contract_of(const Fault& fault) {
  mlacheck_contract contract = kReferenceContract;
  contract.batch_invariant = contract.run_deterministic = fault.promises;
  return contract;
}

constexpr std::array kFaults = {
    of_attention("expects_ascending", expects_ascending),
    of_attention("wraps_the_largest", wraps_the_largest),
    of_attention("drops_a_tile", drops_a_tile),
    of_attention("ignores_length", ignores_length),
    of_attention("clamps_pages", clamps_pages),
    of_attention("favours_row_0", favours_a_row<0>),
    of_attention("favours_row_1", favours_a_row<1>),
    of_attention("empty_lse_is_zero", empty_lse_is_zero),
    of_attention("saturates_at_448", saturates_at_448),
    of_attention("masks_by_a_sentinel", masks_by_a_sentinel),
    of_attention("drops_odd_elements", drops_odd_elements),
    of_attention("multiplies_by_zero", multiplies_by_zero),
    without_promises(of_attention("misreads_entry_1234", misreads_entry_1234)),
    of_attention("varies_by_launch", varies_by_launch),
    of_attention("keeps_its_scratch", keeps_its_scratch),
    of_scores("skips_the_last_head", skips_the_last_head),
    of_scores("narrows_weights", narrows_weights),
    of_scores("misreads_the_tail", misreads_the_tail),
    of_scores("clamps_blocks", clamps_blocks),
    of_top_k("tells_zeros_apart", tells_zeros_apart),
    of_top_k("narrows_scores", narrows_scores),
    of_top_k("reads_in_fours", reads_in_fours),
    of_top_k("counts_from_the_range", counts_from_the_range),
};

int supports(const mlacheck_problem*, char*, std::size_t) { return 1; }

int workspace_size(const mlacheck_problem*, std::uint64_t* bytes) {
  *bytes = 0;
  return 0;
}

template <std::size_t I>
int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void*, std::uint64_t,
        void*, char*, std::size_t) {
  constexpr Fault kFault = kFaults[I];
  if constexpr (kFault.attention != nullptr)
    kFault.attention(problem->u.sparse_attention, *tensors);
  else if constexpr (kFault.scores != nullptr)
    kFault.scores(problem->u.index_scores, *tensors);
  else
    kFault.top_k(problem->u.top_k, *tensors);
  return 0;
}

template <std::size_t I>
constexpr mlacheck_kernel kKernel = {.struct_size = sizeof(mlacheck_kernel),
                                     .op = kFaults[I].op,
                                     .name = kFaults[I].name,
                                     .description = "the reference with one fault",
                                     .memory = MLACHECK_HOST,
                                     .reserved = 0,
                                     .conventions = kReferenceConventions,
                                     .contract = contract_of(kFaults[I]),
                                     .supports = supports,
                                     .workspace_size = workspace_size,
                                     .run = run<I>,
                                     .relu_drops_nan = 0,
                                     .reserved_2 = 0};

template <std::size_t... I>
constexpr auto list(std::index_sequence<I...>) {
  return std::array<const mlacheck_kernel*, sizeof...(I)>{&kKernel<I>...};
}

constexpr auto kKernels = list(std::make_index_sequence<kFaults.size()>{});

constexpr mlacheck_library kLibrary = {.struct_size = sizeof(mlacheck_library),
                                       .abi_version = MLACHECK_ABI_VERSION,
                                       .name = "lawless kernels",
                                       .version = "1",
                                       .kernels = kKernels.data(),
                                       .kernel_count = kKernels.size(),
                                       .reserved = 0};

}  // namespace

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(std::uint32_t) {
  return &kLibrary;
}
