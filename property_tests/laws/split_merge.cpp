#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "property_tests/laws/edit.h"
#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"
#include "reference/oracle/sparse_attention_oracle.h"
#include "reference/verdict/sparse_attention_interval.h"

namespace mlacheck::law {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The parts of every row, one problem row each, and where they stand: part p of row t is row
// t * parts + p. No sink: a caller that merges scales by it afterwards.
struct Parts {
  Parts(SparseAttentionCase made, std::int64_t count) : c(std::move(made)), parts(count) {
    const SparseAttentionProblem whole = c.problem;
    const CounterRandom random(c.recipe.seed, "law.split_and_merge");
    const std::size_t q_row = c.inputs[0].bytes.size() / static_cast<std::size_t>(whole.tokens);
    q.resize(c.inputs[0].bytes.size() * static_cast<std::size_t>(parts));
    for (std::int64_t row = 0; row < whole.tokens * parts; ++row) {
      const std::int64_t t = row / parts, part = row % parts;
      std::copy_n(c.inputs[0].bytes.begin() + static_cast<std::ptrdiff_t>(q_row) * t, q_row,
                  q.begin() + static_cast<std::ptrdiff_t>(q_row) * row);
      if (whole.topk_length != nullptr) lengths.push_back(whole.topk_length[t]);
      // One part is empty; a slot's part is that of its first entry, so that duplicates meet.
      const std::int64_t empty = static_cast<std::int64_t>(
          random.below(static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(parts)));
      for (std::int64_t j = 0; j < whole.topk; ++j) {
        const std::int32_t slot = whole.indices[t * whole.index_stride + j];
        const auto other = static_cast<std::int64_t>(
            random.below(static_cast<std::uint64_t>(whole.tokens + std::max(slot, 0)),
                         static_cast<std::uint64_t>(parts - 1)));
        indices.push_back(part == (empty + 1 + other) % parts ? slot : -1);
      }
    }
    c.problem.tokens = whole.tokens * parts;
    c.problem.q.data = q.data();
    c.problem.indices = indices.data();
    c.problem.index_stride = whole.topk;
    c.problem.topk_length = whole.topk_length == nullptr ? nullptr : lengths.data();
    c.problem.attn_sink = nullptr;
  }

  SparseAttentionCase c;
  std::int64_t parts;
  std::vector<std::byte> q;
  std::vector<std::int32_t> indices;
  std::vector<std::int32_t> lengths;
};

// A part of one head as its caller sees it, and how far it may be off.
struct Part {
  double lse;  // natural, -inf where empty
  double lse_error;
  const float* out;
  std::int64_t h;
  const SparseAttentionInterval* interval;
};

// out = sum_p W_p out_p with W_p = exp(lse_p) / sum exp(lse), pair by pair in the given order.
std::vector<double> merged(const std::vector<Part>& parts, const std::vector<std::size_t>& order,
                           std::int64_t v_dim) {
  std::vector<double> out(static_cast<std::size_t>(v_dim));
  double lse = -kInfinity;
  for (const std::size_t p : order) {
    if (parts[p].lse == -kInfinity) continue;
    const double both =
        std::max(lse, parts[p].lse) + std::log1p(std::exp(-std::abs(lse - parts[p].lse)));
    const double old = std::exp(lse - both), add = std::exp(parts[p].lse - both);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = old * out[i] + add * static_cast<double>(parts[p].out[i]);
    lse = both;
  }
  return out;
}

// Each element of out within what the parts' own intervals allow: W_p moves by a factor
// exp(+-2 e) where every lse is off by e at most, out_p by its core and one rounding.
void check_merge(const std::vector<Part>& parts, const SparseAttentionOracle& whole, std::int64_t h,
                 std::int64_t v_dim, DType out_dtype, LawTrial& trial, const std::string& what) {
  double lse_error = 0;
  for (const Part& part : parts)
    if (part.lse != -kInfinity) lse_error = std::max(lse_error, part.lse_error);
  const double weights_error = std::expm1(2 * lse_error);
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  const bool every = parts.size() <= 4;
  std::size_t turns = 0;
  do {
    const std::vector<double> out = merged(parts, order, v_dim);
    for (std::int64_t i = 0; i < v_dim; ++i) {
      double allowed = std::abs(out[static_cast<std::size_t>(i)]) * 0x1p-40 + 0x1p-140;
      for (const Part& part : parts) {
        if (part.lse == -kInfinity) continue;
        const double weight = std::exp(part.lse - whole.lse[h] + 2 * lse_error);
        const double value = std::abs(static_cast<double>(part.out[i]));
        allowed += weight * (part.interval->core(part.h, i) + spacing(out_dtype, value) +
                             weights_error * value);
      }
      const double error = std::abs(out[static_cast<std::size_t>(i)] - whole.mean(h, i));
      if (!(error <= allowed + whole.radius(h, i))) {
        Finding finding;
        finding.status = Status::fail;
        finding.stage = "sparse_attention.out";
        finding.detail = fmt::format(
            "merged by lse it is {:.9g} in head {}, column {}, expected {:.9g} +- {:.3g}",
            out[static_cast<std::size_t>(i)], h, i, whole.mean(h, i), allowed);
        return trial.expect_inside({finding}, what);
      }
    }
    if (!every) std::rotate(order.begin(), order.begin() + 1, order.end());
    ++turns;
  } while (every ? std::next_permutation(order.begin(), order.end()) : turns < parts.size());
}

// The parts of a row without NaN and Inf, merged as a caller would that knows the conventions
// alone.
void check_row(const Parts& split, const SparseAttentionProblem& problem, std::int64_t t,
               const SparseAttentionResult& result, LawTrial& trial, const std::string& what) {
  NumericsContract contract = trial.contract();
  contract.out_dtype = problem.out_dtype;
  const SparseAttentionOracle whole = sparse_attention_oracle(problem, t, contract.duplicates);
  std::vector<SparseAttentionInterval> intervals;
  std::vector<bool> empty;
  for (std::int64_t p = 0; p < split.parts; ++p) {
    const auto oracle =
        sparse_attention_oracle(split.c.problem, t * split.parts + p, contract.duplicates);
    empty.push_back(oracle.keys == 0);
    intervals.push_back(sparse_attention_interval(oracle, contract));
  }
  const double base = contract.lse_base == LseBase::two ? std::numbers::ln2 : 1.0;
  for (std::int64_t h = 0; h < problem.heads; ++h) {
    if (whole.kind[static_cast<std::size_t>(h)] != RowKind::finite ||
        !whole.special_columns.empty())
      continue;
    std::vector<Part> parts;
    for (std::int64_t p = 0; p < split.parts; ++p) {
      const auto at = static_cast<std::size_t>((t * split.parts + p) * problem.heads + h);
      const SparseAttentionInterval& interval = intervals[static_cast<std::size_t>(p)];
      const double lse = static_cast<double>(result.lse[at]) * base;
      const double error = interval.lse[static_cast<std::size_t>(h)].core * base +
                           spacing(DType::f32, std::abs(lse));
      parts.push_back({empty[static_cast<std::size_t>(p)] ? -kInfinity : lse, error,
                       result.out.data() + at * static_cast<std::size_t>(problem.v_dim), h,
                       &interval});
    }
    check_merge(parts, whole, h, problem.v_dim, problem.out_dtype, trial, what);
  }
}

constexpr double kMostWork = 1 << 24;  // products of the oracles of all parts

void run_split_and_merge(const Recipe& recipe, LawTrial& trial) {
  SparseAttentionRecipe r = trial.as_read(std::get<SparseAttentionRecipe>(recipe));
  if (r.topk == 0) return trial.skip("rows have no entries");
  SparseAttentionCase whole(r);
  const CounterRandom random(r.seed, "law.parts");
  const std::int64_t parts = 2 + static_cast<std::int64_t>(random.below(0, 7));
  const double work = static_cast<double>(r.tokens * r.heads) *
                      static_cast<double>(r.topk * parts) * static_cast<double>(r.qk_dim + r.v_dim);
  if (work > 16 * kMostWork) return trial.skip("the case is too large to be judged in parts");
  const Parts split(SparseAttentionCase(r), parts);
  const std::string what = fmt::format("in {} parts, one empty", parts);
  const auto call = trial.run(make_call(split.c), what);
  if (!call) return;
  trial.expect_inside(split.c.problem, *call, what);
  const SparseAttentionResult result = attention_result(*call);
  for (std::int64_t t = 0; t < r.tokens; ++t)
    check_row(split, whole.problem, t, result, trial, what);
}

}  // namespace

Law split_and_merge() {
  return {
      "split_and_merge",
      "a row in 2 to 8 parts, one of them empty: each inside its interval, and merged by lse, in "
      "any order, inside that of the whole",
      is_attention, run_split_and_merge};
}

}  // namespace mlacheck::law
