#include <algorithm>
#include <cmath>
#include <numbers>

#include "property_tests/stages/attention_attempt.h"
#include "reference/oracle/sparse_attention_oracle.h"
#include "reference/verdict/interval.h"

namespace mlacheck::stages {
// Named too: batches of files compile as one, and variants of operators are alike.
namespace of_results {
namespace {

using Attempt = AttentionAttempt;

constexpr auto kLn2 = std::numbers::ln2_v<float>;
constexpr auto kLog2E = std::numbers::log2e_v<float>;

void scale(std::vector<float>& values, float factor) {
  for (float& x : values) x *= factor;
}

// ---- softmax ----

bool scaled_by(Attempt& a, float factor) {
  const float before = a.sm_scale;
  a.sm_scale *= factor;
  return a.sm_scale != before;
}
bool no_scale(Attempt& a) {
  const float before = a.sm_scale;
  a.sm_scale = 1;
  return before != 1;
}
bool scale_twice(Attempt& a) { return scaled_by(a, a.sm_scale); }
bool exp2_for_exp(Attempt& a) { return scaled_by(a, kLn2); }
bool log2e_twice(Attempt& a) { return scaled_by(a, kLog2E); }
bool one_percent_more(Attempt& a) { return scaled_by(a, 1.01f); }
bool uniform(Attempt& a) {
  const float before = a.sm_scale;
  a.sm_scale = 0;
  return before != 0;
}
bool negated(Attempt& a) { return scaled_by(a, -1); }

// out times 1 / factor of each head: undoes an out that was `factor` too large.
template <class Factor>
bool out_times(Attempt& a, Factor factor) {
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const SparseAttentionOracle oracle = sparse_attention_oracle(a.problem(), t);
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const double f = factor(oracle, h);
      float* out = a.result.out.data() + (t * a.heads + h) * a.v_dim;
      for (std::int64_t c = 0; c < a.v_dim; ++c)
        out[c] =
            round_to(a.contract.out_dtype, static_cast<float>(static_cast<double>(out[c]) / f));
    }
  }
  return true;
}

bool not_normalised(Attempt& a) {
  // What was rounded when it was larger lies between the values of its type: as a partial's does.
  a.contract.partial_dtype = a.contract.out_dtype;
  a.contract.max_splits = std::max(a.contract.max_splits, 2);
  return out_times(a, [](const SparseAttentionOracle& oracle, std::int64_t h) {
    return oracle.keys == 0 ? 1.0 : oracle.weight_sum[h];
  });
}

// ---- rounding that was not declared ----

template <DType Type>
bool weights_in(Attempt& a) {
  if (size_of(a.contract.weight_dtype) <= size_of(Type)) return false;
  a.contract.weight_dtype = Type;
  return true;
}

bool partials_in_out_type(Attempt& a) {
  if (a.contract.max_splits > 1 && a.contract.partial_dtype == a.contract.out_dtype) return false;
  a.contract.partial_dtype = a.contract.out_dtype;
  a.contract.max_splits = std::max(a.contract.max_splits, 8);
  return a.contract.out_dtype != DType::f32;
}

bool coarse_exponential(Attempt& a) {
  a.contract.exp_error = std::max(a.contract.exp_error, 0x1p-9);
  return true;
}

// ---- values ----

bool out_of_next_entry(Attempt& a) {
  a.part_values();
  std::vector<float> rows = a.kv;
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    std::vector<std::int64_t> present;
    for (std::int64_t j = 0; j < a.topk; ++j)
      if (a.is_present(t, j)) present.push_back(t * a.topk + j);
    for (std::size_t i = 0; i < present.size(); ++i)
      std::copy_n(a.kv.begin() + present[(i + 1) % present.size()] * a.qk_dim, a.v_dim,
                  rows.begin() + present[i] * a.qk_dim);
  }
  a.kv = std::move(rows);
  return a.topk > 1;
}

bool values_from_the_end(Attempt& a) {
  const std::int64_t v = a.v_dim, d = a.qk_dim;
  if (v == d) return false;
  a.part_values();
  for (std::int64_t r = 0; r < a.slots; ++r) {
    float* row = a.row(r);
    std::copy_n(row + v + (d - v), v, row);
  }
  return true;
}

// The last `count` elements of every value are 0.
bool drop_value_elements(Attempt& a, std::int64_t count) {
  if (a.v_dim < count) return false;
  a.part_values();
  for (std::int64_t r = 0; r < a.slots; ++r) std::fill_n(a.row(r) + a.v_dim - count, count, 0.0f);
  return true;
}
bool no_last_column(Attempt& a) { return drop_value_elements(a, 1); }
bool no_last_columns(Attempt& a) { return drop_value_elements(a, 16); }

bool saturated_values(Attempt& a) {
  a.part_values();
  bool changed = false;
  for (std::int64_t r = 0; r < a.slots; ++r)
    for (float *x = a.row(r), *end = x + a.v_dim; x < end; ++x) {
      changed = changed || std::abs(*x) > 448;
      *x = std::clamp(*x, -448.0f, 448.0f);
    }
  return changed;
}

// ---- sink and lse ----

bool no_sink(Attempt& a) {
  const bool had = !a.sink.empty();
  a.sink.clear();
  return had;
}
bool scaled_sink(Attempt& a) {
  scale(a.sink, a.sm_scale);
  return !a.sink.empty() && a.sm_scale != 1;
}
bool sink_in_base_2(Attempt& a) {
  scale(a.sink, kLn2);
  return !a.sink.empty();
}
bool shifted_sink(Attempt& a) {
  if (a.sink.size() < 2) return false;
  std::rotate(a.sink.begin(), a.sink.begin() + 1, a.sink.end());
  return true;
}
bool sink_in_lse(Attempt& a) {
  a.contract.sink_in_lse = !a.contract.sink_in_lse;
  return !a.sink.empty();
}

bool other_base(Attempt& a) {
  a.contract.lse_base = a.contract.lse_base == LseBase::natural ? LseBase::two : LseBase::natural;
  return true;
}

// lse of the sum alone, without the maximum that was taken out of it.
bool lse_without_maximum(Attempt& a) {
  const float unit = a.contract.lse_base == LseBase::two ? kLog2E : 1.0f;
  for (std::size_t i = 0; i < a.result.lse.size() && i < a.result.max_logit.size(); ++i)
    a.result.lse[i] += a.result.max_logit[i] * unit;
  return !a.result.max_logit.empty();
}

template <EmptyLse Empty>
bool empty_is(Attempt& a) {
  const EmptyLse before = a.contract.lse_empty;
  a.contract.lse_empty = Empty;
  return before != Empty;
}

bool raw_maximum(Attempt& a) {
  scale(a.result.max_logit, a.sm_scale);
  return a.sm_scale != 1;
}
bool maximum_in_base_2(Attempt& a) {
  scale(a.result.max_logit, kLn2);
  return true;
}

// ---- output ----

bool heads_shifted(Attempt& a) {
  if (a.heads * a.tokens < 2) return false;
  std::rotate(a.result.out.rbegin(), a.result.out.rbegin() + a.v_dim, a.result.out.rend());
  for (auto* values : {&a.result.lse, &a.result.max_logit})
    if (!values->empty()) std::rotate(values->rbegin(), values->rbegin() + 1, values->rend());
  return true;
}

// Elements whose neighbour is the right one become it: out rounded other than to nearest, or twice.
bool off_by_one_unit(Attempt& a) {
  const DType type = a.contract.out_dtype;
  bool changed = false;
  for (std::int64_t t = 0; t < a.tokens && type != DType::f32; ++t) {
    const SparseAttentionOracle oracle = sparse_attention_oracle(a.problem(), t);
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t c = 0; c < a.v_dim; ++c) {
        const float right =
            round_to(type, static_cast<float>(oracle.mean(h, c) * oracle.sink_factor[h]));
        float& got = a.result.out[static_cast<std::size_t>((t * a.heads + h) * a.v_dim + c)];
        if (ulp_distance(type, got, right) != 1) continue;
        got = right;
        changed = true;
      }
  }
  return changed;
}

}  // namespace
}  // namespace of_results

const std::vector<AttentionVariant>& attention_result_variants() {
  using namespace of_results;
  static const std::vector<AttentionVariant> variants = {
      {"softmax", "sm_scale was left out", no_scale},
      {"softmax", "sm_scale was applied twice", scale_twice},
      {"softmax", "the exponential had base 2", exp2_for_exp},
      {"softmax", "log2(e) was applied twice", log2e_twice},
      {"softmax", "sm_scale was 1 % more", one_percent_more},
      {"softmax", "all keys weighed alike", uniform},
      {"softmax", "scores had the other sign", negated},
      {"softmax", "out was not divided by the sum of the weights", not_normalised},
      {"values", "each value was that of the entry after its own", out_of_next_entry},
      {"values", "values were the last elements of a row", values_from_the_end},
      {"values", "the last element of values was 0", no_last_column},
      {"values", "the last 16 elements of values were 0", no_last_columns},
      {"values", "values ended at 448", saturated_values},
      {"softmax", "the sink was ignored", no_sink},
      {"softmax", "the sink was multiplied by sm_scale", scaled_sink},
      {"softmax", "the sink was in base 2", sink_in_base_2},
      {"layout", "each head had the sink after its own", shifted_sink},
      {"conventions", "lse included the sink, or not, other than declared", sink_in_lse},
      {"conventions", "lse was in the other base", other_base},
      {"conventions", "lse lacked the maximum", lse_without_maximum},
      {"conventions", "lse of an empty row was +inf", empty_is<EmptyLse::plus_inf>},
      {"conventions", "lse of an empty row was -inf", empty_is<EmptyLse::minus_inf>},
      {"conventions", "lse of an empty row was -1e30", empty_is<EmptyLse::minus_1e30>},
      {"conventions", "max_logit lacked sm_scale", raw_maximum},
      {"conventions", "max_logit was in base 2", maximum_in_base_2},
      {"layout", "outputs were written one head too far", heads_shifted},
      {"output", "elements of out were one unit in the last place off", off_by_one_unit, true},
      {"softmax", "weights were rounded to f16", weights_in<DType::f16>, true},
      {"softmax", "weights were rounded to bf16", weights_in<DType::bf16>, true},
      {"softmax", "weights were rounded to e4m3", weights_in<DType::e4m3>, true},
      {"softmax", "the exponential was off by 2^-9", coarse_exponential, true},
      {"merge", "split results were rounded to the type of out", partials_in_out_type, true},
  };
  return variants;
}

}  // namespace mlacheck::stages
