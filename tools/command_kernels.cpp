#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_declaration.h"
#include "cuda/plugin/kernel_library.h"
#include "reference/verdict/verdict.h"
#include "tools/commands.h"
#include "tools/kernel_checks.h"
#include "tools/kernel_contract.h"
#include "tools/reference_library.h"
#include "tools/report_files.h"

namespace mlacheck {

namespace {

std::string describe(const mlacheck_accumulation& sum) {
  static constexpr const char* kOrders[] = {"?", "sequential", "16 lanes", "tree"};
  return fmt::format(
      "{}, {} {} a step{}{}", kOrders[sum.order], sum.block, sum.block == 1 ? "term" : "terms",
      sum.rounds_terms != 0 ? ", terms rounded" : "",
      sum.toward_zero != 0 ? fmt::format(", truncated with {} bits", sum.alignment_bits) : "");
}

// A tolerance, a scale: the power of two that it is, else three digits.
std::string describe(float x) {
  int exponent = 0;
  if (std::frexp(x, &exponent) == 0.5f && x != 1) return fmt::format("2^{}", exponent - 1);
  return fmt::format("{:.3g}", x);
}

void show_attention(const mlacheck_conventions& conventions, const mlacheck_contract& c) {
  static constexpr const char* kEmpty[] = {"?", "-inf", "+inf", "-1e30"};
  static constexpr const char* kReaders[] = {"none", "fp32_product", "bf16_scale", "e8m0_scale"};
  fmt::print("    lse base {}, {} for an empty row, sink {} lse; duplicates count {}; records {}\n",
             conventions.lse_base == MLACHECK_LSE_BASE2 ? "2" : "e", kEmpty[conventions.lse_empty],
             conventions.sink_in_lse != 0 ? "in" : "not in",
             conventions.duplicates_once != 0 ? "once" : "each time",
             kReaders[conventions.record_reader]);
  fmt::print("    query-key sums: {}; value sums: {}; weight sums: {}\n", describe(c.qk),
             describe(c.pv), describe(c.weight_sum));
  fmt::print("    weights {} scaled by {}, {} the division by their sum, which adds {}\n",
             name_of(mlacheck::dtype_of(c.weight_dtype)), describe(c.weight_scale),
             c.weights_normalised != 0 ? "after" : "before",
             c.sums_rounded != 0 ? "the rounded ones" : "the unrounded ones");
  fmt::print("    tile {}, headroom {}, exp error {}, underflow below {}, log error {}\n",
             c.tile == 0 ? "none" : fmt::format("{} keys", c.tile), describe(c.max_headroom),
             describe(c.exp_error), describe(c.exp_underflow), describe(c.log_error));
  fmt::print("    {}, subnormals {}\n",
             c.max_splits == 1 ? "one split"
                               : fmt::format("up to {} splits, partials {}", c.max_splits,
                                             name_of(mlacheck::dtype_of(c.partial_dtype))),
             c.flushes_subnormals != 0 ? "flushed" : "kept");
}

void show(const mlacheck_kernel& kernel) {
  const mlacheck_conventions& conventions = kernel.conventions;
  const mlacheck_contract& contract = kernel.contract;
  fmt::print("  {} ({}): {}\n", kernel.name, operator_name(kernel.op),
             printable(kernel.description));
  fmt::print("    tensors in {} memory\n", kernel.memory == MLACHECK_HOST ? "host" : "device");
  if (kernel.op == MLACHECK_SPARSE_ATTENTION) show_attention(conventions, contract);
  if (kernel.op == MLACHECK_INDEX_SCORES || kernel.op == MLACHECK_INDEX_SELECT)
    fmt::print("    dot products: {}; heads: {}; scores {}, {} outside a range; NaN {} the ReLU\n",
               describe(contract.index_dot), describe(contract.index_heads),
               name_of(mlacheck::dtype_of(contract.score_dtype)),
               conventions.unmasked_scores != 0 ? "anything" : "-inf",
               relu_drops_nan(kernel) != 0 ? "lost in" : "passes");
  if (kernel.op == MLACHECK_TOP_K || kernel.op == MLACHECK_INDEX_SELECT)
    fmt::print("    order {}, ties {}, NaN {}, keys count from {}\n",
               conventions.any_order != 0 ? "any" : "ascending",
               conventions.any_tie != 0 ? "any" : "to the lowest index",
               conventions.nan_first != 0 ? "first" : "last",
               conventions.row_relative != 0 ? "the range's begin" : "0");
  std::vector<const char*> promises;
  if (contract.run_deterministic != 0) promises.push_back("same bits from run to run");
  if (contract.batch_invariant != 0) promises.push_back("batch invariance");
  fmt::print("    promises: {}\n",
             promises.empty() ? "none" : fmt::format("{}", fmt::join(promises, ", ")));
}

std::string describe(const std::optional<CallOutcome>& support) {
  if (!support) return "is for another operator";
  switch (support->kind) {
    case CallOutcome::Kind::done:
      return "supports it";
    case CallOutcome::Kind::refused:
      return fmt::format("refuses: {}", support->detail);
    case CallOutcome::Kind::failed:
      return fmt::format("{}: {}", name_of(Status::fail), support->detail);
    case CallOutcome::Kind::not_called:
      return support->detail;
    case CallOutcome::Kind::crashed:
    case CallOutcome::Kind::timed_out:
      break;
  }
  return fmt::format("{}: {}", name_of(Status::crashed), support->detail);
}

bool is_failure(const std::optional<CallOutcome>& support) {
  return support && support->kind != CallOutcome::Kind::done &&
         support->kind != CallOutcome::Kind::refused;
}

}  // namespace

void add_kernels(CLI::App& app, Action& action) {
  struct Options {
    std::vector<std::string> libraries;
    std::string recipe;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "kernels", "What each kernel declares, and why it refuses a given problem");
  command->add_option("library", options->libraries,
                      "Kernel libraries (.so, .py); the reference where none is given");
  command->add_option("--for", options->recipe, "Ask each kernel whether it supports this recipe");
  command->callback([options, &action] {
    action = [options] {
      std::vector<std::string> libraries = options->libraries;
      if (libraries.empty()) libraries.push_back(reference_library().string());
      bool failed = false;
      for (const std::string& path : libraries) {
        const KernelLibrary library = load_library(path);
        fmt::print("{}: {} {}\n", path, library.name(), library.version());
        for (const mlacheck_kernel* kernel : library.kernels()) {
          show(*kernel);
          if (options->recipe.empty()) continue;
          const auto support = support_of(library, *kernel, parse_recipe(options->recipe));
          fmt::print("    {}\n", printable(describe(support)));
          failed |= is_failure(support);
        }
      }
      return failed ? kExitFailure : kExitPass;
    };
  });
}

}  // namespace mlacheck
