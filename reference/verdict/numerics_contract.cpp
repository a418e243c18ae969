#include "reference/verdict/numerics_contract.h"

#include <algorithm>
#include <cmath>

#include "reference/operators/require.h"
#include "reference/oracle/error_bound.h"

namespace mlacheck {
namespace {

using detail::require;

constexpr double kU = 0x1p-24;

// exp2_f32: 0.808 ulp. log2_f32: 0.960 ulp, and one more for kLn2 and the product with it. Stated
// beside the functions.
constexpr double kReferenceExpError = 0.808 * 0x1p-23;
constexpr double kReferenceLogError = 1.960 * 0x1p-23;

void require_valid(const char* field, const Accumulation& sum) {
  require(sum.block >= 1, "{}.block: expected >= 1, got {}", field, sum.block);
  require(sum.alignment_bits >= 8 && sum.alignment_bits <= 60,
          "{}.alignment_bits: expected 8 .. 60, got {}", field, sum.alignment_bits);
}

void require_error(const char* field, double error) {
  require(error >= 0 && error < 0.5, "{}: expected 0 <= error < 0.5, got {}", field, error);
}

void require_float(const char* field, DType dtype) {
  require(
      dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::e4m3,
      "{}: expected f32, f16, bf16 or e4m3, got {}", field, name_of(dtype));
}

bool aligns(const Accumulation& sum) {
  return sum.rounding == Rounding::toward_zero && sum.block > 1;
}

}  // namespace

NumericsContract reference_contract(DType out_dtype, DType weight_dtype) {
  const Accumulation products{.order = SumOrder::lanes16, .rounds_terms = true};
  NumericsContract contract;
  contract.qk = contract.pv = contract.index_dot = contract.index_heads = products;
  contract.weight_sum = {.order = SumOrder::lanes16};
  contract.exp_error = kReferenceExpError;
  contract.log_error = kReferenceLogError;
  contract.weight_dtype = weight_dtype;
  contract.out_dtype = out_dtype;
  return contract;
}

void require_valid(const NumericsContract& contract) {
  require_valid("qk", contract.qk);
  require_valid("pv", contract.pv);
  require_valid("weight_sum", contract.weight_sum);
  require_valid("index_dot", contract.index_dot);
  require_valid("index_heads", contract.index_heads);
  require(contract.tile >= 0, "tile: expected >= 0, got {}", contract.tile);
  require_error("exp_error", contract.exp_error);
  require_error("exp_underflow", contract.exp_underflow);
  require_error("log_error", contract.log_error);
  require_float("weight_dtype", contract.weight_dtype);
  require_float("partial_dtype", contract.partial_dtype);
  require_float("out_dtype", contract.out_dtype);
  require_float("score_dtype", contract.score_dtype);
  require(contract.weight_scale > 0 && std::isfinite(contract.weight_scale),
          "weight_scale: expected a positive number, got {}", contract.weight_scale);
  require(contract.max_splits >= 1, "max_splits: expected >= 1, got {}", contract.max_splits);
  require(contract.max_headroom >= 0 && contract.max_headroom <= 64,
          "max_headroom: expected 0 .. 64, got {}", contract.max_headroom);
}

double depth(const Accumulation& sum, std::int64_t n) {
  const double blocks = std::ceil(static_cast<double>(n) / sum.block);
  switch (sum.order) {
    case SumOrder::sequential:
      return blocks;
    case SumOrder::lanes16:
      return std::ceil(blocks / 16) + 4;
    case SumOrder::tree:
      return std::ceil(std::log2(std::max(blocks, 1.0))) + (sum.block > 1 ? 1 : 0);
  }
  return blocks;
}

double step_error(const Accumulation& sum) {
  const double rounding = sum.rounding == Rounding::to_nearest ? kU : 2 * kU;
  return rounding + (aligns(sum) ? sum.block * std::ldexp(1.0, -sum.alignment_bits) : 0);
}

double worst_case(const Accumulation& sum, std::int64_t n, std::int64_t extra) {
  return gamma_of(depth(sum, n) * step_error(sum) +
                  (static_cast<double>(extra) + (sum.rounds_terms ? 1 : 0)) * kU);
}

double statistical(const Accumulation& sum, std::int64_t n, std::int64_t extra, double lambda) {
  const double steps = depth(sum, n);
  const double nearest = static_cast<double>(extra) + (sum.rounds_terms ? 1 : 0);
  const double random =
      lambda * std::sqrt(steps * step_error(sum) * step_error(sum) + nearest * kU * kU);
  const double bias = sum.rounding == Rounding::toward_zero ? 0.5 * steps * step_error(sum) : 0;
  return std::min(gamma_of(bias + random), worst_case(sum, n, extra));
}

}  // namespace mlacheck
