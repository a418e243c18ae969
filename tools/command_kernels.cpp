#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
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
#include "tools/reference_library.h"

namespace mlacheck {

namespace {

std::string describe(const mlacheck_accumulation& sum) {
  static constexpr const char* kOrders[] = {"?", "sequential", "16 lanes", "tree"};
  return fmt::format(
      "{}, {} terms a step{}", kOrders[sum.order], sum.block,
      sum.toward_zero != 0 ? fmt::format(", truncated with {} bits", sum.alignment_bits) : "");
}

void show(const mlacheck_kernel& kernel) {
  const mlacheck_conventions& conventions = kernel.conventions;
  const mlacheck_contract& contract = kernel.contract;
  fmt::print("  {} ({}): {}\n", kernel.name, operator_name(kernel.op), kernel.description);
  fmt::print("    tensors in {} memory\n", kernel.memory == MLACHECK_HOST ? "host" : "device");
  const bool attention = kernel.op == MLACHECK_SPARSE_ATTENTION;
  if (attention) {
    static constexpr const char* kEmpty[] = {"?", "-inf", "+inf", "-1e30"};
    fmt::print("    lse base {}, {} for an empty row, sink {} lse\n",
               conventions.lse_base == MLACHECK_LSE_BASE2 ? "2" : "e",
               kEmpty[conventions.lse_empty], conventions.sink_in_lse != 0 ? "in" : "not in");
    fmt::print("    query-key sums: {}; value sums: {}; weight sums: {}\n", describe(contract.qk),
               describe(contract.pv), describe(contract.weight_sum));
  }
  if (kernel.op == MLACHECK_INDEX_SCORES || kernel.op == MLACHECK_INDEX_SELECT)
    fmt::print("    dot products: {}; heads: {}; NaN {} the ReLU\n", describe(contract.index_dot),
               describe(contract.index_heads), relu_drops_nan(kernel) != 0 ? "lost in" : "passes");
  if (kernel.op == MLACHECK_TOP_K || kernel.op == MLACHECK_INDEX_SELECT)
    fmt::print("    order {}, ties {}\n", conventions.any_order != 0 ? "any" : "ascending",
               conventions.any_tie != 0 ? "any" : "to the lowest index");
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
                      "Kernel libraries (.so); the reference where none is given");
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
          fmt::print("    {}\n", describe(support));
          failed |= is_failure(support);
        }
      }
      return failed ? kExitFailure : kExitPass;
    };
  });
}

}  // namespace mlacheck
