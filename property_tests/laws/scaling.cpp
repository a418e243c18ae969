#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "property_tests/laws/edit.h"
#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"

namespace mlacheck::law {
namespace {

// Whether every finite value but 0 stays normal in dtype times 2^power, as it is itself.
bool scales_exactly(const std::vector<float>& values, DType dtype, int power) {
  const int least = dtype == DType::f16 ? -14 : -126, most = dtype == DType::f16 ? 15 : 127;
  for (const float x : values) {
    if (x == 0 || !std::isfinite(x)) continue;
    const int exponent = std::ilogb(x);
    if (exponent < least || exponent + power < least || exponent + power > most) return false;
  }
  return true;
}

void scale(std::vector<float>& values, int power) {
  for (float& x : values) x = std::ldexp(x, power);
}

// Least exponent of a product of q and kv that stays far from subnormal numbers in fp32, whatever
// is lost on the way.
constexpr int kLeastExponent = -60;

bool is_far_from_subnormal(const std::vector<float>& values, int power) {
  for (const float x : values)
    if (x != 0 && std::isfinite(x) && std::ilogb(x) + std::min(power, 0) < kLeastExponent)
      return false;
  return true;
}

// Sums of terms that were subnormal on the way are not exact: what is left of such a column counts
// as 0.
void drop_tiny(std::vector<float>& values) {
  for (float& x : values)
    if (std::abs(x) < std::ldexp(1.0f, kLeastExponent)) x = 0;
}

// The cache times 2^power, sm_scale times 2^-power: the same scores and weights, bit for bit, and
// out times 2^power. What compares raw products of q and k with a constant, or narrows values on
// the way, breaks it.
void run_cache_power(const Recipe& recipe, LawTrial& trial) {
  SparseAttentionCase c(trial.as_read(std::get<SparseAttentionRecipe>(recipe)));
  Tensor& kv = tensor(c.inputs, "kv");
  const std::vector<float> values = values_of(kv);
  if (c.problem.out_dtype == DType::f16 || trial.contract().partial_dtype == DType::f16)
    return trial.skip("outputs or partials in f16 may be subnormal");
  const auto first = trial.run(c, "");
  if (!first) return;
  std::vector<float> out = attention_result(*first).out;
  const float sm_scale = c.problem.sm_scale;
  for (const int power : {12, -6}) {
    const std::string what = fmt::format("kv * 2^{}, sm_scale * 2^{}", power, -power);
    if (!scales_exactly(values, kv.dtype, power) || !is_far_from_subnormal(values, power) ||
        !scales_exactly({sm_scale}, DType::f32, -power)) {
      trial.skip(what + " is not exact");
      continue;
    }
    std::vector<float> scaled = values;
    scale(scaled, power);
    set_values(kv, scaled);
    c.problem.sm_scale = std::ldexp(sm_scale, -power);
    const auto second = trial.run(c, what);
    if (!second) continue;
    if (!trial.contract().run_deterministic) {
      trial.expect_inside(c.problem, *second, what);
      continue;
    }
    std::vector<float> expected = out, got = attention_result(*second).out;
    scale(expected, power);
    drop_tiny(expected);
    drop_tiny(got);
    trial.expect_bits("out", std::as_bytes(std::span(expected)), std::as_bytes(std::span(got)),
                      DType::f32, what);
    for (const CallTensor output : {CallTensor::lse, CallTensor::max_logit})
      trial.expect_bits(tensor_name(output), first->tensor(output), second->tensor(output),
                        DType::f32, what);
  }
}

bool has_rows(const Recipe& recipe, const mlacheck_kernel& kernel) {
  return is_attention(recipe, kernel) &&
         std::get<SparseAttentionRecipe>(recipe).kv != KvFormat::record656;
}

// Every value c higher, where its type holds that exactly: scores of a head rise alike, so weights
// stay, and so does out but for c. Values of a fill can be too fine for a c that the row's type
// holds.
void run_value_shift(const Recipe& recipe, LawTrial& trial) {
  SparseAttentionCase c(trial.as_read(std::get<SparseAttentionRecipe>(recipe)));
  Tensor& kv = tensor(c.inputs, "kv");
  const std::vector<float> values = values_of(kv);
  const std::int64_t row = kv.shape.back();
  for (const float shift : {64.0f, 1.0f, 0.125f}) {
    std::vector<float> shifted = values;
    bool exact = true;
    for (std::int64_t i = 0; i < std::ssize(values); ++i) {
      float& x = shifted[static_cast<std::size_t>(i)];
      if (i % row >= c.problem.v_dim || !std::isfinite(x)) continue;
      const float before = x;
      x = round_to(kv.dtype, before + shift);
      exact = exact &&
              static_cast<double>(x) == static_cast<double>(before) + static_cast<double>(shift);
    }
    if (!exact) continue;
    set_values(kv, shifted);
    const std::string what = fmt::format("values + {}", shift);
    const auto call = trial.run(c, what);
    if (call) trial.expect_inside(c.problem, *call, what);
    return;
  }
  trial.skip("no shift of the values is exact in their type");
}

// Weights times 2^power: scores times 2^power, bit for bit; the same selection.
void run_weight_power(const Recipe& recipe, LawTrial& trial) {
  IndexScoresCase c(std::get<IndexScoresRecipe>(recipe));
  Tensor& weights = tensor(c.inputs, "weights");
  const std::vector<float> values = values_of(weights);
  const auto first = trial.run(c.problem, "");
  if (!first) return;
  std::vector<float> scores;
  if (trial.kernel().op == MLACHECK_INDEX_SCORES) scores = scores_result(*first);
  for (const int power : {24, -24}) {
    const std::string what = fmt::format("weights * 2^{}", power);
    const DType type = trial.contract().score_dtype;
    if (type == DType::f16 || !scales_exactly(values, DType::f32, power) ||
        !is_far_from_subnormal(values, power) || !is_far_from_subnormal(scores, power)) {
      trial.skip(what + " is not exact");
      continue;
    }
    std::vector<float> scaled = values;
    scale(scaled, power);
    set_values(weights, scaled);
    const auto second = trial.run(c.problem, what);
    if (!second) continue;
    const bool select = trial.kernel().op == MLACHECK_INDEX_SELECT;
    if (!trial.contract().run_deterministic || (select && trial.contract().ties == TieRule::any)) {
      trial.expect_inside(c.problem, *second, what);
    } else if (select) {
      trial.expect_bits(*first, *second, what);
    } else {
      std::vector<float> expected = scores;
      scale(expected, power);
      const std::vector<float> got = scores_result(*second);
      trial.expect_bits("scores_out", std::as_bytes(std::span(expected)),
                        std::as_bytes(std::span(got)), DType::f32, what);
    }
  }
}

}  // namespace

Law cache_power() {
  return {"cache_power",
          "kv * 2^p and sm_scale * 2^-p: out * 2^p, the same lse and max_logit, by bits", has_rows,
          run_cache_power};
}

Law value_shift() {
  return {"value_shift", "values + c, exactly: inside the interval of out + c", has_rows,
          run_value_shift};
}

Law weight_power() {
  return {"weight_power", "weights * 2^p: scores * 2^p, the same selection, by bits", is_index,
          run_weight_power};
}

}  // namespace mlacheck::law
