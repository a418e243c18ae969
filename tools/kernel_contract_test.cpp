#include "tools/kernel_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"

namespace mlacheck {
namespace {

using ::testing::ElementsAre;

const mlacheck_kernel& reference(const char* name) {
  static const KernelLibrary library = KernelLibrary::open(MLACHECK_REFERENCE_LIBRARY);
  return library.kernel(name);
}

// A number for every field; that none is left out is for the compiler to say.
std::map<std::string, double> fields(const NumericsContract& contract) {
  std::map<std::string, double> all;
  const auto add = [&](const std::string& name, auto value) {
    all[name] = static_cast<double>(value);
  };
  const auto add_sum = [&](const std::string& name, const Accumulation& sum) {
    const auto& [block, order, rounding, rounds_terms, alignment_bits] = sum;
    add(name + ".block", block);
    add(name + ".order", order);
    add(name + ".rounding", rounding);
    add(name + ".rounds_terms", rounds_terms);
    add(name + ".alignment_bits", alignment_bits);
  };
  const auto& [qk, pv, weight_sum, tile, exp_error, exp_underflow, log_error, weight_dtype,
               weight_scale, weights_normalised, sums_rounded_weights, max_splits, partial_dtype,
               max_headroom, flushes_subnormals, out_dtype, lse_base, lse_empty, sink_in_lse,
               duplicates, index_dot, index_heads, score_dtype, masks_scores, relu_drops_nan, ties,
               selection_order, nan_scores, run_deterministic, batch_invariant] = contract;
  add_sum("qk", qk);
  add_sum("pv", pv);
  add_sum("weight_sum", weight_sum);
  add("tile", tile);
  add("exp_error", exp_error);
  add("exp_underflow", exp_underflow);
  add("log_error", log_error);
  add("weight_dtype", weight_dtype);
  add("weight_scale", weight_scale);
  add("weights_normalised", weights_normalised);
  add("sums_rounded_weights", sums_rounded_weights);
  add("max_splits", max_splits);
  add("partial_dtype", partial_dtype);
  add("max_headroom", max_headroom);
  add("flushes_subnormals", flushes_subnormals);
  add("out_dtype", out_dtype);
  add("lse_base", lse_base);
  add("lse_empty", lse_empty);
  add("sink_in_lse", sink_in_lse);
  add("duplicates", duplicates);
  add_sum("index_dot", index_dot);
  add_sum("index_heads", index_heads);
  add("score_dtype", score_dtype);
  add("masks_scores", masks_scores);
  add("relu_drops_nan", relu_drops_nan);
  add("ties", ties);
  add("selection_order", selection_order);
  add("nan_scores", nan_scores);
  add("run_deterministic", run_deterministic);
  add("batch_invariant", batch_invariant);
  return all;
}

// Fields of other operators have their defaults.
TEST(ContractOf, TheReferenceLibraryIsTheReferenceContract) {
  const NumericsContract all = reference_contract();
  NumericsContract attention = all;
  attention.index_dot = attention.index_heads = {};
  EXPECT_EQ(fields(contract_of(reference("sparse_attention"))), fields(attention));
  NumericsContract scores;
  scores.index_dot = all.index_dot;
  scores.index_heads = all.index_heads;
  EXPECT_EQ(fields(contract_of(reference("index_scores"))), fields(scores));
  EXPECT_EQ(fields(contract_of(reference("index_select"))), fields(scores));
  EXPECT_EQ(fields(contract_of(reference("top_k"))), fields({}));
  EXPECT_EQ(fields(contract_of(reference("map_slots"))), fields({}));
}

std::vector<std::string> changed_by(const char* name,
                                    const std::function<void(mlacheck_kernel&)>& change) {
  mlacheck_kernel kernel = reference(name);
  const std::map<std::string, double> before = fields(contract_of(kernel));
  change(kernel);
  std::vector<std::string> names;
  for (const auto& [field, value] : fields(contract_of(kernel)))
    if (value != before.at(field)) names.push_back(field);
  return names;
}

TEST(ContractOf, EveryDeclarationReachesItsField) {
  const char* kernel = "sparse_attention";
#define EXPECT_CHANGES(field, value, name)                                     \
  EXPECT_THAT(changed_by(kernel, [](mlacheck_kernel& k) { k.field = value; }), \
              ElementsAre(std::string(name)))
#define EXPECT_CHANGES_SUM(sum)                                                                 \
  EXPECT_CHANGES(contract.sum.block, 16, #sum ".block");                                        \
  EXPECT_CHANGES(contract.sum.order, MLACHECK_SUM_SEQUENTIAL, #sum ".order");                   \
  EXPECT_CHANGES(contract.sum.order, MLACHECK_SUM_TREE, #sum ".order");                         \
  EXPECT_CHANGES(contract.sum.toward_zero, 1, #sum ".rounding");                                \
  EXPECT_THAT(changed_by(kernel,                                                                \
                         [](mlacheck_kernel& k) {                                               \
                           k.contract.sum.toward_zero = 1;                                      \
                           k.contract.sum.alignment_bits = 24;                                  \
                         }),                                                                    \
              ElementsAre(std::string(#sum ".alignment_bits"), std::string(#sum ".rounding"))); \
  EXPECT_CHANGES(contract.sum.rounds_terms, 1 - k.contract.sum.rounds_terms, #sum ".rounds_terms")
  EXPECT_CHANGES_SUM(qk);
  EXPECT_CHANGES_SUM(pv);
  EXPECT_CHANGES_SUM(weight_sum);
  EXPECT_CHANGES(contract.tile, 64, "tile");
  EXPECT_CHANGES(contract.exp_error, 0x1p-20f, "exp_error");
  EXPECT_CHANGES(contract.exp_underflow, 0x1p-30f, "exp_underflow");
  EXPECT_CHANGES(contract.log_error, 0x1p-20f, "log_error");
  EXPECT_CHANGES(contract.weight_dtype, MLACHECK_E4M3, "weight_dtype");
  EXPECT_CHANGES(contract.weight_scale, 448, "weight_scale");
  EXPECT_CHANGES(contract.weights_normalised, 1, "weights_normalised");
  EXPECT_CHANGES(contract.sums_rounded, 1, "sums_rounded_weights");
  EXPECT_CHANGES(contract.max_splits, 8, "max_splits");
  EXPECT_CHANGES(contract.partial_dtype, MLACHECK_BF16, "partial_dtype");
  EXPECT_CHANGES(contract.max_headroom, 8, "max_headroom");
  EXPECT_CHANGES(contract.flushes_subnormals, 1, "flushes_subnormals");
  EXPECT_CHANGES(contract.run_deterministic, 0, "run_deterministic");
  EXPECT_CHANGES(contract.batch_invariant, 0, "batch_invariant");
  EXPECT_CHANGES(conventions.lse_base, MLACHECK_LSE_BASE2, "lse_base");
  EXPECT_CHANGES(conventions.lse_empty, MLACHECK_EMPTY_PLUS_INF, "lse_empty");
  EXPECT_CHANGES(conventions.lse_empty, MLACHECK_EMPTY_MINUS_1E30, "lse_empty");
  EXPECT_CHANGES(conventions.sink_in_lse, 1, "sink_in_lse");
  EXPECT_CHANGES(conventions.duplicates_once, 1, "duplicates");
  kernel = "index_scores";
  EXPECT_CHANGES_SUM(index_dot);
  EXPECT_CHANGES_SUM(index_heads);
  EXPECT_CHANGES(contract.score_dtype, MLACHECK_F16, "score_dtype");
  EXPECT_CHANGES(conventions.unmasked_scores, 1, "masks_scores");
  EXPECT_CHANGES(relu_drops_nan, 1, "relu_drops_nan");
  kernel = "top_k";
  EXPECT_CHANGES(conventions.any_order, 1, "selection_order");
  EXPECT_CHANGES(conventions.any_tie, 1, "ties");
  EXPECT_CHANGES(conventions.nan_first, 1, "nan_scores");
#undef EXPECT_CHANGES_SUM
#undef EXPECT_CHANGES
}

}  // namespace
}  // namespace mlacheck
