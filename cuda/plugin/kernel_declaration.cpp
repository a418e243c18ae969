#include "cuda/plugin/kernel_declaration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/verdict/contract_limits.h"

namespace mlacheck {

namespace {

class Checker {
 public:
  void size(std::string_view what, std::uint32_t got, std::size_t expected) {
    if (got < expected)
      note(fmt::format("{}.struct_size is {}, expected at least {}", what, got, expected));
  }
  void integer(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
      note(fmt::format("{} is {}, allowed are {} to {}", field, value, low, high));
  }
  void flag(std::string_view field, std::int64_t value) { integer(field, value, 0, 1); }
  void real(std::string_view field, double value, double low, double high) {
    // Written so that NaN is refused.
    if (!(value >= low && value <= high))
      note(fmt::format("{} is {}, allowed are {} to {}", field, value, low, high));
  }
  void accumulation(std::string_view sum, const mlacheck_accumulation& a) {
    const auto name = [&](std::string_view field) { return fmt::format("{}.{}", sum, field); };
    integer(name("block"), a.block, 1, 1024);
    integer(name("order"), a.order, MLACHECK_SUM_SEQUENTIAL, MLACHECK_SUM_TREE);
    flag(name("toward_zero"), a.toward_zero);
    flag(name("rounds_terms"), a.rounds_terms);
    if (a.toward_zero == 0) return;  // nothing is aligned: the number is not read
    integer(name("alignment_bits"), a.alignment_bits, 8, 60);
    real(name("block 2^-alignment_bits"), std::ldexp(a.block, -a.alignment_bits), 0,
         kMaxAlignmentLoss);
  }
  std::string flaws() const { return fmt::format("{}", fmt::join(flaws_, "; ")); }

 private:
  std::vector<std::string> flaws_;
  void note(std::string text) { flaws_.push_back(std::move(text)); }
};

void check_attention(Checker& checker, const mlacheck_conventions& v, const mlacheck_contract& c) {
  checker.integer("conventions.lse_base", v.lse_base, MLACHECK_LSE_NATURAL, MLACHECK_LSE_BASE2);
  checker.integer("conventions.lse_empty", v.lse_empty, MLACHECK_EMPTY_MINUS_INF,
                  MLACHECK_EMPTY_MINUS_1E30);
  checker.flag("conventions.sink_in_lse", v.sink_in_lse);
  checker.flag("conventions.duplicates_once", v.duplicates_once);
  checker.integer("conventions.record_reader", v.record_reader, 0, MLACHECK_READ_E8M0_SCALE);
  checker.integer("contract.tile", c.tile, 0, 1 << 20);
  checker.accumulation("contract.qk", c.qk);
  checker.accumulation("contract.pv", c.pv);
  checker.accumulation("contract.weight_sum", c.weight_sum);
  checker.integer("contract.weight_dtype", c.weight_dtype, MLACHECK_F32, MLACHECK_E4M3);
  checker.flag("contract.weights_normalised", c.weights_normalised);
  checker.flag("contract.sums_rounded", c.sums_rounded);
  checker.integer("contract.max_splits", c.max_splits, 1, 1 << 20);
  checker.integer("contract.partial_dtype", c.partial_dtype, MLACHECK_F32, MLACHECK_BF16);
  checker.flag("contract.flushes_subnormals", c.flushes_subnormals);
  const bool e4m3 = c.weight_dtype == MLACHECK_E4M3;
  const auto value = [](float x) { return static_cast<double>(x); };
  checker.real("contract.weight_scale", value(c.weight_scale),
               e4m3 ? kMinE4m3WeightScale : kMinWeightScale, kMaxWeightScale);
  checker.real("contract.exp_error", value(c.exp_error), 0, kMaxFunctionError);
  if (c.tile > 0)
    checker.real("contract.exp_error / tile", value(c.exp_error) / c.tile, 0, kMaxRescaleError);
  checker.real("contract.exp_underflow", value(c.exp_underflow), 0, kMaxUnderflow);
  checker.real("contract.log_error", value(c.log_error), 0, kMaxFunctionError);
  checker.real("contract.max_headroom", value(c.max_headroom), 0, kMaxHeadroom);
}

void check_index_scores(Checker& checker, const mlacheck_kernel& kernel) {
  checker.flag("conventions.unmasked_scores", kernel.conventions.unmasked_scores);
  checker.flag("relu_drops_nan", relu_drops_nan(kernel));
  checker.accumulation("contract.index_dot", kernel.contract.index_dot);
  checker.accumulation("contract.index_heads", kernel.contract.index_heads);
  checker.integer("contract.score_dtype", kernel.contract.score_dtype, MLACHECK_F32, MLACHECK_BF16);
}

void check_selection(Checker& checker, const mlacheck_conventions& v) {
  checker.flag("conventions.row_relative", v.row_relative);
  checker.flag("conventions.any_order", v.any_order);
  checker.flag("conventions.any_tie", v.any_tie);
  checker.flag("conventions.nan_first", v.nan_first);
}

}  // namespace

std::int32_t relu_drops_nan(const mlacheck_kernel& kernel) {
  constexpr std::size_t kEnd = kFirstKernelSize + sizeof(kernel.relu_drops_nan);
  return kernel.struct_size >= kEnd ? kernel.relu_drops_nan : 0;
}

std::string flaws_of_declaration(const mlacheck_kernel& kernel) {
  Checker checker;
  checker.integer("op", kernel.op, MLACHECK_SPARSE_ATTENTION, MLACHECK_MAP_SLOTS);
  checker.integer("memory", kernel.memory, MLACHECK_HOST, MLACHECK_DEVICE);
  const std::int32_t op = kernel.op;
  const mlacheck_contract& contract = kernel.contract;
  checker.size("conventions", kernel.conventions.struct_size, sizeof(kernel.conventions));
  checker.size("contract", contract.struct_size, sizeof(contract));
  checker.flag("contract.batch_invariant", contract.batch_invariant);
  checker.flag("contract.run_deterministic", contract.run_deterministic);
  if (op == MLACHECK_SPARSE_ATTENTION) check_attention(checker, kernel.conventions, contract);
  if (op == MLACHECK_INDEX_SCORES || op == MLACHECK_INDEX_SELECT)
    check_index_scores(checker, kernel);
  if (op == MLACHECK_TOP_K || op == MLACHECK_INDEX_SELECT)
    check_selection(checker, kernel.conventions);
  return checker.flaws();
}

}  // namespace mlacheck
