#include <numeric>

#include <fmt/format.h>

#include "property_tests/laws/edit.h"
#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"
#include "tools/judgements.h"

namespace mlacheck::law {
namespace {

std::vector<std::int64_t> reversed(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

// Every tensor that has a row for each token.
void reverse_rows(std::vector<Tensor>& inputs, std::int64_t tokens) {
  for (Tensor& t : inputs) {
    const bool shared =
        t.name == "kv" || t.name == "keys" || t.name == "attn_sink" || t.name == "block_table";
    if (!shared && tokens > 0)
      reorder(t.bytes, t.bytes.size() / static_cast<std::size_t>(tokens), reversed(tokens));
  }
}

std::span<const std::byte> row_of(std::span<const std::byte> all, std::int64_t t,
                                  std::int64_t tokens) {
  const std::size_t row = all.size() / static_cast<std::size_t>(tokens);
  return all.subspan(static_cast<std::size_t>(t) * row, row);
}

// The last row alone is part of every judgement of a kernel that promises its bits.
std::vector<std::int64_t> rows_to_try(std::int64_t tokens) {
  std::vector<std::int64_t> rows = {0};
  if (tokens > 2) rows.push_back(tokens / 2);
  return rows;
}

void run_solo_rows(const Recipe& recipe, LawTrial& trial) {
  const SparseAttentionCase c(trial.as_read(std::get<SparseAttentionRecipe>(recipe)));
  if (!trial.contract().batch_invariant) {
    for (const std::int64_t t : rows_to_try(c.problem.tokens)) {
      const SparseAttentionProblem row = mlacheck::row_of(c.problem, t);
      const std::string what = fmt::format("row {} alone", t);
      // A case's records are not a problem's rows.
      if (c.recipe.kv == KvFormat::record656) return trial.skip("records of a single row");
      if (const auto call = trial.run(make_call(row), what)) trial.expect_inside(row, *call, what);
    }
    return;
  }
  const auto all = trial.run(make_batch_invariant_call(c), "batch invariant");
  if (!all) return;
  for (const std::int64_t t : rows_to_try(c.problem.tokens)) {
    const std::string what = fmt::format("row {} alone (batch invariant)", t);
    const auto solo = trial.run(make_solo_call(c, t), what);
    if (!solo) continue;
    for (const CallTensor output : {CallTensor::out, CallTensor::lse})
      trial.expect_bits(tensor_name(output), row_of(all->tensor(output), t, c.problem.tokens),
                        solo->tensor(output),
                        output == CallTensor::out ? c.problem.out_dtype : DType::f32, what);
  }
}

void reverse_attention(const SparseAttentionRecipe& recipe, LawTrial& trial) {
  SparseAttentionCase c(recipe);
  const bool promised = trial.contract().batch_invariant;
  const auto first =
      promised ? trial.run(make_batch_invariant_call(c), "batch invariant") : nullptr;
  if (promised && !first) return;
  reverse_rows(c.inputs, c.problem.tokens);
  const char* what = promised ? "rows reversed (batch invariant)" : "rows reversed";
  const auto second = trial.run(promised ? make_batch_invariant_call(c) : make_call(c), what);
  if (!second) return;
  if (!promised) return trial.expect_inside(c.problem, *second, what);
  for (const CallTensor output : {CallTensor::out, CallTensor::lse, CallTensor::max_logit}) {
    const std::span<const std::byte> rows = first->tensor(output);
    std::vector<std::byte> expected(rows.begin(), rows.end());
    reorder(expected, rows.size() / static_cast<std::size_t>(c.problem.tokens),
            reversed(c.problem.tokens));
    trial.expect_bits(tensor_name(output), expected, second->tensor(output),
                      output == CallTensor::out ? c.problem.out_dtype : DType::f32, what);
  }
}

// Only attention has a mode in which bits are promised.
void run_row_order(const Recipe& recipe, LawTrial& trial) {
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe))
    return reverse_attention(trial.as_read(*attention), trial);
  if (const auto* scores = std::get_if<IndexScoresRecipe>(&recipe)) {
    IndexScoresCase c(*scores);
    reverse_rows(c.inputs, c.problem.tokens);
    const auto call = trial.run(c.problem, "rows reversed");
    if (call) trial.expect_inside(c.problem, *call, "rows reversed");
    return;
  }
  TopKCase c(std::get<TopKRecipe>(recipe));
  reverse_rows(c.inputs, c.recipe.tokens);
  const auto call = trial.run(make_call(problem_of(c)), "rows reversed");
  if (call) trial.expect_inside(c, *call, "rows reversed");
}

}  // namespace

Law solo_rows() {
  return {"solo_rows",
          "a row alone: the batch's bits where they are promised, inside the interval otherwise",
          is_attention, run_solo_rows};
}

Law row_order() {
  return {"row_order",
          "rows reversed: the same bits in the batch-invariant mode, inside the interval otherwise",
          is_any, run_row_order};
}

}  // namespace mlacheck::law
