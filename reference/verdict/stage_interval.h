#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "reference/oracle/stages.h"
#include "reference/verdict/interval.h"
#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// Error of a layer's stage before its result is rounded to its format, relative to the stage's
// gauge (stages.h), and an absolute floor for products that fall below fp32's normal range.
struct StageError {
  double core = 0;
  double likely = 0;
  double floor = 0;
};

// y = x W^T over n inputs, summed by `sum`: g(n).
StageError linear_error(const Accumulation& sum, std::int64_t n, double lambda = kLambda);

// Sum of squares, division, eps, root, reciprocal, two products: g(n) / 2 + 7u, and one rounding to
// bf16 between the two products if rounds_between.
StageError rms_norm_error(const Accumulation& sum, std::int64_t n, bool rounds_between);

// Two-pass statistics: g(n) + 16u.
StageError layer_norm_error(const Accumulation& sum, std::int64_t n);

// Two products and their sum in fp32: 2u, and one rounding to bf16 if the products are rounded to
// it.
StageError rope_error(bool rounds_products_to_bf16);

// Judges a stage's output [rows, columns], values of dtype, against its oracle.
Finding check_stage(std::string stage, const StageOracle& oracle, const StageError& error,
                    DType dtype, std::span<const float> got, std::int64_t columns);

}  // namespace mlacheck
