#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "property_tests/legal/variants.h"

namespace mlacheck::legal {
namespace {

int refuse(char* why, std::size_t size, std::string_view reason) {
  if (size > 0) why[reason.copy(why, size - 1)] = '\0';
  return 0;
}

int supports(const mlacheck_problem* problem, char* why, std::size_t size) {
  const bool is_attention = problem->op == MLACHECK_SPARSE_ATTENTION;
  if (is_attention && problem->u.sparse_attention.kv.format != MLACHECK_CACHE_ROWS)
    return refuse(why, size, "a cache of rows alone");
  return 1;
}

int workspace_size(const mlacheck_problem*, std::uint64_t* bytes) {
  *bytes = 0;
  return 0;
}

constexpr mlacheck_conventions conventions_of(bool loose) {
  return {.struct_size = sizeof(mlacheck_conventions),
          .lse_base = MLACHECK_LSE_NATURAL,
          .lse_empty = MLACHECK_EMPTY_MINUS_INF,
          .sink_in_lse = 0,
          .duplicates_once = 0,
          .row_relative = 0,
          .any_order = loose ? 1 : 0,
          .any_tie = loose ? 1 : 0,
          .nan_first = loose ? 1 : 0,
          .unmasked_scores = 0,
          .record_reader = 0};
}

constexpr mlacheck_contract contract_of(const AttentionVariant& a, const ScoresVariant& s) {
  return {.struct_size = sizeof(mlacheck_contract),
          .tile = a.tile,
          .qk = a.sums,
          .pv = a.sums,
          .weight_sum = kFused,
          .index_dot = s.dot,
          .index_heads = s.heads,
          .weight_dtype = a.weight_dtype,
          .weights_normalised = a.weights_normalised,
          .sums_rounded = a.sums_rounded,
          .max_splits = a.splits,
          .partial_dtype = a.partial_dtype,
          .score_dtype = MLACHECK_F32,
          .flushes_subnormals = 0,
          .batch_invariant = 0,
          .run_deterministic = 0,
          .weight_scale = 1,
          .exp_error = 0x1p-23f,
          .exp_underflow = 0x1p-126f,
          .log_error = 0x1p-23f,
          .max_headroom = a.max_headroom};
}

template <std::size_t I>
int run_attention(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void*,
                  std::uint64_t, void*, char*, std::size_t) {
  run(kAttention[I], problem->u.sparse_attention, *tensors);
  return 0;
}
template <std::size_t I>
int run_scores(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void*,
               std::uint64_t, void*, char*, std::size_t) {
  const bool unmasked =
      MLACHECK_PROBLEM_HAS(problem, unmasked_scores) && problem->unmasked_scores != 0;
  run(kScores[I], problem->u.index_scores, unmasked, *tensors);
  return 0;
}
int run_selection(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void*,
                  std::uint64_t, void*, char*, std::size_t) {
  run_top_k(problem->u.top_k, *tensors);
  return 0;
}

using Run = decltype(mlacheck_kernel::run);
constexpr mlacheck_kernel kernel_of(mlacheck_operator op, const char* name, const char* description,
                                    const mlacheck_contract& contract, Run run_kernel) {
  return {.struct_size = sizeof(mlacheck_kernel),
          .op = op,
          .name = name,
          .description = description,
          .memory = MLACHECK_HOST,
          .reserved = 0,
          .conventions = conventions_of(op == MLACHECK_TOP_K),
          .contract = contract,
          .supports = supports,
          .workspace_size = workspace_size,
          .run = run_kernel,
          .relu_drops_nan = 0,
          .reserved_2 = 0};
}

template <std::size_t... I, std::size_t... J>
constexpr auto kernels_of(std::index_sequence<I...>, std::index_sequence<J...>) {
  return std::array{
      kernel_of(MLACHECK_SPARSE_ATTENTION, kAttention[I].name, kAttention[I].description,
                contract_of(kAttention[I], kScores[0]), run_attention<I>)...,
      kernel_of(MLACHECK_INDEX_SCORES, kScores[J].name, kScores[J].description,
                contract_of(kAttention[0], kScores[J]), run_scores<J>)...,
      kernel_of(MLACHECK_TOP_K, "top_k_loose", "any order, ties to the highest index, NaN first",
                contract_of(kAttention[0], kScores[0]), run_selection)};
}
constexpr auto kKernels = kernels_of(std::make_index_sequence<kAttention.size()>(),
                                     std::make_index_sequence<kScores.size()>());

template <std::size_t... I>
constexpr auto addresses_of(std::index_sequence<I...>) {
  return std::array{&kKernels[I]...};
}
constexpr auto kAddresses = addresses_of(std::make_index_sequence<kKernels.size()>());

constexpr mlacheck_library kLibrary = {.struct_size = sizeof(mlacheck_library),
                                       .abi_version = MLACHECK_ABI_VERSION,
                                       .name = "legal variants",
                                       .version = "1",
                                       .kernels = kAddresses.data(),
                                       .kernel_count = kAddresses.size(),
                                       .reserved = 0};

}  // namespace
}  // namespace mlacheck::legal

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(std::uint32_t) {
  return &mlacheck::legal::kLibrary;
}
