#include "tools/kernel_contract.h"

#include "cuda/plugin/kernel_declaration.h"

namespace mlacheck {

namespace {

Accumulation accumulation_of(const mlacheck_accumulation& a) {
  static constexpr SumOrder kOrders[] = {SumOrder::sequential, SumOrder::lanes16, SumOrder::tree};
  Accumulation sum{
      .block = a.block, .order = kOrders[a.order - 1], .rounds_terms = a.rounds_terms != 0};
  if (a.toward_zero != 0) {
    sum.rounding = Rounding::toward_zero;
    sum.alignment_bits = a.alignment_bits;
  }
  return sum;
}

void read_attention(const mlacheck_conventions& v, const mlacheck_contract& c,
                    NumericsContract& contract) {
  static constexpr EmptyLse kEmpty[] = {EmptyLse::minus_inf, EmptyLse::plus_inf,
                                        EmptyLse::minus_1e30};
  contract.qk = accumulation_of(c.qk);
  contract.pv = accumulation_of(c.pv);
  contract.weight_sum = accumulation_of(c.weight_sum);
  contract.tile = c.tile;
  contract.exp_error = static_cast<double>(c.exp_error);
  contract.exp_underflow = static_cast<double>(c.exp_underflow);
  contract.log_error = static_cast<double>(c.log_error);
  contract.weight_dtype = mlacheck::dtype_of(c.weight_dtype);
  contract.weight_scale = static_cast<double>(c.weight_scale);
  contract.weights_normalised = c.weights_normalised != 0;
  contract.sums_rounded_weights = c.sums_rounded != 0;
  contract.max_splits = c.max_splits;
  contract.partial_dtype = mlacheck::dtype_of(c.partial_dtype);
  contract.max_headroom = static_cast<double>(c.max_headroom);
  contract.flushes_subnormals = c.flushes_subnormals != 0;
  contract.lse_base = v.lse_base == MLACHECK_LSE_BASE2 ? LseBase::two : LseBase::natural;
  contract.lse_empty = kEmpty[v.lse_empty - 1];
  contract.sink_in_lse = v.sink_in_lse != 0;
  contract.duplicates = v.duplicates_once != 0 ? Duplicates::counted_once : Duplicates::counted;
}

void read_index_scores(const mlacheck_kernel& kernel, NumericsContract& contract) {
  contract.index_dot = accumulation_of(kernel.contract.index_dot);
  contract.index_heads = accumulation_of(kernel.contract.index_heads);
  contract.score_dtype = mlacheck::dtype_of(kernel.contract.score_dtype);
  contract.relu_drops_nan = relu_drops_nan(kernel) != 0;
  contract.masks_scores = kernel.conventions.unmasked_scores == 0;
}

void read_selection(const mlacheck_conventions& v, NumericsContract& contract) {
  contract.ties = v.any_tie != 0 ? TieRule::any : TieRule::lowest_index;
  contract.selection_order = v.any_order != 0 ? SelectionOrder::any : SelectionOrder::ascending;
  contract.nan_scores = v.nan_first != 0 ? NanScores::selected_first : NanScores::never_selected;
}

}  // namespace

DType dtype_of(std::int32_t dtype) {
  switch (dtype) {
    case MLACHECK_F32:
      return DType::f32;
    case MLACHECK_F16:
      return DType::f16;
    case MLACHECK_BF16:
      return DType::bf16;
    default:
      return DType::e4m3;
  }
}

NumericsContract contract_of(const mlacheck_kernel& kernel) {
  const std::int32_t op = kernel.op;
  NumericsContract contract;
  if (op == MLACHECK_SPARSE_ATTENTION)
    read_attention(kernel.conventions, kernel.contract, contract);
  if (op == MLACHECK_INDEX_SCORES || op == MLACHECK_INDEX_SELECT)
    read_index_scores(kernel, contract);
  if (op == MLACHECK_TOP_K || op == MLACHECK_INDEX_SELECT)
    read_selection(kernel.conventions, contract);
  contract.run_deterministic = kernel.contract.run_deterministic != 0;
  contract.batch_invariant = kernel.contract.batch_invariant != 0;
  return contract;
}

}  // namespace mlacheck
