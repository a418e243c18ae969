#include "reference/verdict/stage_interval.h"

#include <cmath>
#include <utility>

#include "reference/operators/require.h"
#include "reference/oracle/error_bound.h"
#include "reference/verdict/constants.h"
#include "reference/verdict/tally.h"

namespace mlacheck {
namespace {

// NaN and Inf are exact: whatever the inputs make of them.
Admissible admissible_of(double value, double gauge) {
  if (std::isnan(value)) return {.finite = false, .nan = true};
  if (std::isinf(value)) return {.finite = false, .plus_inf = value > 0, .minus_inf = value < 0};
  return {.anything = !(gauge < kFloatMax)};
}

}  // namespace

StageError linear_error(const Accumulation& sum, std::int64_t n, double lambda) {
  return {worst_case(sum, n), statistical(sum, n, 0, lambda),
          static_cast<double>(n) * half_subnormal(DType::f32)};
}

StageError rms_norm_error(const Accumulation& sum, std::int64_t n, bool rounds_between) {
  const double error =
      gamma_of(worst_case(sum, n) / 2 + 7 * kU + (rounds_between ? unit_roundoff(DType::bf16) : 0));
  return {error, error, half_subnormal(DType::f32)};
}

StageError layer_norm_error(const Accumulation& sum, std::int64_t n) {
  const double error = gamma_of(worst_case(sum, n) + 16 * kU);
  return {error, error, 4 * half_subnormal(DType::f32)};
}

StageError rope_error(bool rounds_products_to_bf16) {
  const DType dtype = rounds_products_to_bf16 ? DType::bf16 : DType::f32;
  const double error = gamma_of(2 * kU + (rounds_products_to_bf16 ? unit_roundoff(dtype) : 0));
  return {error, error, 4 * half_subnormal(dtype)};
}

Finding check_stage(std::string stage, const StageOracle& oracle, const StageError& error,
                    DType dtype, std::span<const float> got, std::int64_t columns) {
  detail::require(got.size() == oracle.value.size(), "{}: expected {} elements, got {}", stage,
                  oracle.value.size(), got.size());
  Tally tally(dtype);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double gauge = oracle.gauge[i], rest = oracle.radius[i] + error.floor;
    const auto at = static_cast<std::int64_t>(i);
    tally.add({at / columns, at % columns, -1},
              {oracle.value[i], error.core * gauge + rest, error.likely * gauge + rest,
               admissible_of(oracle.value[i], gauge)},
              got[i]);
  }
  return tally.finding(std::move(stage));
}

}  // namespace mlacheck
