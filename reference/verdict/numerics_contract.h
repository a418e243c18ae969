#pragma once

#include <cstdint>

#include "reference/formats/dtype.h"
#include "reference/oracle/sparse_attention_oracle.h"

namespace mlacheck {

enum class Rounding { to_nearest, toward_zero };

// How the partial sums of n blocks meet: one accumulator; 16 interleaved ones and a tree
// (ordered_sum.h); a balanced tree.
enum class SumOrder { sequential, lanes16, tree };

// A sum of n terms in fp32. `block` terms are one step: for products their sum is exact but for the
// alignment loss of a truncating tensor core, and joins the accumulator with one rounding; 1 is
// scalar code.
struct Accumulation {
  std::int32_t block = 1;
  SumOrder order = SumOrder::sequential;
  Rounding rounding = Rounding::to_nearest;
  // Terms (or the exact sum of a block) are rounded to fp32 before they are added.
  bool rounds_terms = false;
  // Fraction bits F that a truncating step keeps below its largest exponent: each of its terms may
  // lose 2^-F of the largest (reference/arithmetic/tensor_core.h; 25 for f16 and bf16 on sm_90 and
  // sm_120).
  std::int32_t alignment_bits = 25;
  friend bool operator==(const Accumulation&, const Accumulation&) = default;
};

enum class LseBase { natural, two };
enum class EmptyLse { minus_inf, plus_inf, minus_1e30 };
enum class TieRule { lowest_index, any };
enum class SelectionOrder { ascending, any };
enum class NanScores { never_selected, selected_first };

// The arithmetic and the conventions that a kernel declares, and is then held to. Numbers and enums
// only.
struct NumericsContract {
  // Sparse attention: what sets the width of the interval.
  Accumulation qk = {};             // query-key products over qk_dim
  Accumulation pv = {};             // weight-value products over the keys
  Accumulation weight_sum = {};     // of the softmax weights
  std::int32_t tile = 0;            // keys between two rescales by a new maximum; 0: never rescaled
  double exp_error = 0x1p-22;       // relative
  double exp_underflow = 0x1p-126;  // a weight below this, of the largest, may be flushed to 0
  double log_error = 0x1p-22;       // of ln l, relative to 1 + |ln l|
  DType weight_dtype = DType::f32;  // weights round to this before the value product ...
  double weight_scale = 1;          // ... when multiplied by this (a power of two)
  bool weights_normalised = false;  // ... after the division by their sum, not before
  bool sums_rounded_weights = false;  // the sum of weights adds the rounded ones
  std::int32_t max_splits = 1;        // partial results of a row that are merged; 1: none
  DType partial_dtype = DType::f32;   // of stored partials
  double max_headroom = 0;            // log2 by which a weight may exceed 1: a lazy maximum
  bool flushes_subnormals = false;    // fp32 results below 2^-126 become 0
  DType out_dtype = DType::bf16;

  // Sparse attention: conventions.
  LseBase lse_base = LseBase::natural;
  EmptyLse lse_empty = EmptyLse::minus_inf;
  bool sink_in_lse = false;
  Duplicates duplicates = Duplicates::counted;

  // Index scores.
  Accumulation index_dot = {};
  Accumulation index_heads = {};
  DType score_dtype = DType::f32;
  bool masks_scores = true;     // -inf outside a row's range; false: anything stands there
  bool relu_drops_nan = false;  // max(0, NaN) = 0

  // Top-k.
  TieRule ties = TieRule::lowest_index;
  SelectionOrder selection_order = SelectionOrder::ascending;
  NanScores nan_scores = NanScores::never_selected;

  // Promises, checked by bits.
  bool run_deterministic = true;
  bool batch_invariant = true;
  friend bool operator==(const NumericsContract&, const NumericsContract&) = default;
};

// What the fp32 reference operators declare: ordered sums (depth ceil(n / 16) + 4, and 1 for the
// products), one maximum for a row, exp2_f32 and log2_f32. weight_dtype as in
// SparseAttentionNumerics.
NumericsContract reference_contract(DType out_dtype = DType::bf16, DType weight_dtype = DType::f32);

// Throws std::invalid_argument naming the field when a value makes no sense.
void require_valid(const NumericsContract& contract);

// Roundings that a term can pass in a sum of n.
double depth(const Accumulation& sum, std::int64_t n);

// Largest error of one step, relative to the magnitudes summed so far.
double step_error(const Accumulation& sum);

// Worst case, relative to sum |terms|; `extra` further nearest roundings of the accumulator
// (rescales).
double worst_case(const Accumulation& sum, std::int64_t n, std::int64_t extra = 0);

// Bound that independent, zero-mean rounding errors exceed with probability 2 exp(-lambda^2 / 2) at
// most (Hoeffding; Higham and Mary 2019). Truncation is biased: half its worst case stays, lambda
// covers the rest.
double statistical(const Accumulation& sum, std::int64_t n, std::int64_t extra, double lambda);

// lambda of the statistical bounds: a clean Gaussian element lies outside with probability 2e-9.
inline constexpr double kLambda = 6;

}  // namespace mlacheck
