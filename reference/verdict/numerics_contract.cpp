#include "reference/verdict/numerics_contract.h"

#include <algorithm>
#include <cmath>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/operators/require.h"
#include "reference/oracle/error_bound.h"
#include "reference/verdict/constants.h"
#include "reference/verdict/contract_limits.h"

namespace mlacheck {
namespace {

using detail::require;

void require_valid(const char* field, const Accumulation& sum) {
  require(sum.block >= 1, "{}.block: expected >= 1, got {}", field, sum.block);
  require(sum.alignment_bits >= 8 && sum.alignment_bits <= 60,
          "{}.alignment_bits: expected 8 .. 60, got {}", field, sum.alignment_bits);
  const double loss = sum.block * std::ldexp(1.0, -sum.alignment_bits);
  require(sum.rounding == Rounding::to_nearest || loss <= kMaxAlignmentLoss,
          "{}.block: a step may lose block 2^-alignment_bits, at most {}, got {} 2^-{} = {}", field,
          kMaxAlignmentLoss, sum.block, sum.alignment_bits, loss);
}

void require_range(const char* field, double value, double low, double high) {
  require(value >= low && value <= high, "{}: expected {} .. {}, got {}", field, low, high, value);
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
  contract.exp_error = static_cast<double>(kExp2Error);
  contract.log_error = static_cast<double>(kLnError);
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
  require_range("exp_error", contract.exp_error, 0, kMaxFunctionError);
  require(contract.tile == 0 || contract.exp_error <= kMaxRescaleError * contract.tile,
          "tile: a rescale every {} keys allows an exp_error of {}, got {}", contract.tile,
          kMaxRescaleError * contract.tile, contract.exp_error);
  require_range("exp_underflow", contract.exp_underflow, 0, kMaxUnderflow);
  require_range("log_error", contract.log_error, 0, kMaxFunctionError);
  require_float("weight_dtype", contract.weight_dtype);
  require_float("partial_dtype", contract.partial_dtype);
  require_float("out_dtype", contract.out_dtype);
  require_float("score_dtype", contract.score_dtype);
  require_range("weight_scale", contract.weight_scale,
                contract.weight_dtype == DType::e4m3 ? kMinE4m3WeightScale : kMinWeightScale,
                kMaxWeightScale);
  require(contract.max_splits >= 1, "max_splits: expected >= 1, got {}", contract.max_splits);
  require_range("max_headroom", contract.max_headroom, 0, kMaxHeadroom);
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
