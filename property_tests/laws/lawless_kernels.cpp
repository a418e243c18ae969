// Kernels that compute as the reference does, but for one thing each that a law shows and that
// judging the same recipe alone does not: what the laws' test runs.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "property_tests/laws/lawless_attention.h"
#include "reference/operators/top_k.h"
#include "tools/plugins/problem_views.h"
#include "tools/plugins/reference_declaration.h"

namespace {

using namespace mlacheck;
using namespace mlacheck::plugin;
using namespace mlacheck::lawless;

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
    of_attention("favours_row_0", favours_row_0),
    of_attention("favours_row_1", favours_row_1),
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
