#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "cuda/plugin/kernel_worker.h"
#include "fixtures/recipe.h"
#include "tools/bench_case.h"
#include "tools/bench_floors.h"
#include "tools/bench_report.h"
#include "tools/commands.h"
#include "tools/judgements.h"
#include "tools/kernel_checks.h"
#include "tools/kernel_options.h"
#include "tools/reference_library.h"
#include "tools/report_files.h"

namespace mlacheck {

namespace {

struct BenchOptions {
  std::vector<std::string> recipes;
  std::vector<std::int64_t> tokens;
  bool batch_invariant = false;
  bool chain = false;
  KernelOptions kernels;
  std::optional<std::filesystem::path> json;
};

// GLM-5's attention with its heads on one GPU, and on two, four or eight.
std::vector<std::string> default_recipes() {
  std::vector<std::string> recipes;
  for (const int heads : {8, 16, 64, 128})
    recipes.push_back(
        fmt::format("mlacheck1 op=sparse_attention h={} n=131072 q=f16 kv=f16", heads));
  return recipes;
}
const std::vector<std::int64_t> kDefaultTokens = {1, 8, 64, 256, 1024, 4096};

std::string names_of(StageKernels kernels, const char* between) {
  std::string names;
  for (const mlacheck_kernel* kernel : kernels) {
    if (!names.empty()) names += between;
    names += kernel->name;
  }
  return names;
}

BenchResult time_one(const BenchCase& bench, const Recipe& recipe, const TimedCalls& timed,
                     const KernelLibrary& library, StageKernels kernels) {
  BenchResult result;
  result.kernel =
      fmt::format("{}:{}", library.path().filename().string(), names_of(kernels, " > "));
  result.repro = repro_of(with_tokens(recipe, timed.tokens), &library);
  result.timed = timed;
  result.detail = bench.refusal(kernels);
  if (!result.detail.empty()) {
    result.status = Status::refused;
    return result;
  }
  const auto call = bench.make_call(timed);
  const CallOutcome outcome = time_in_worker(*call, library.target(names_of(kernels, "\n")));
  if (outcome.kind != CallOutcome::Kind::done) {
    result.status = status_of(outcome.kind);
    result.detail = outcome.detail;
    return result;
  }
  result.times = outcome.times;
  result.workspace_bytes = outcome.workspace_bytes;
  for (const std::string& trespass : call->trespasses()) {
    result.status = Status::fail;
    result.detail = trespass;
  }
  const std::vector<Finding> findings = bench.judge(*call, kernels);
  result.judged = detail::judged_elements(findings);
  for (const Finding& finding : findings) {
    if (finding.status <= result.status) continue;
    result.status = finding.status;
    result.detail = to_string(finding);
  }
  return result;
}

// The library's kernels for the stages from `chosen` on, in every combination.
void choose_kernels(const KernelLibrary& library, const std::vector<std::int32_t>& ops,
                    std::vector<const mlacheck_kernel*> chosen,
                    std::vector<std::vector<const mlacheck_kernel*>>& all) {
  if (chosen.size() == ops.size()) return all.push_back(std::move(chosen));
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != ops[chosen.size()]) continue;
    chosen.push_back(kernel);
    choose_kernels(library, ops, chosen, all);
    chosen.pop_back();
  }
}

// The library's kernels for it; what they refuse is told only where none takes it, and that there
// are none.
std::vector<BenchResult> time_library(const BenchCase& bench, const Recipe& recipe,
                                      const TimedCalls& timed, const KernelLibrary& library) {
  std::vector<std::vector<const mlacheck_kernel*>> choices;
  choose_kernels(library, bench.ops(), {}, choices);
  std::vector<BenchResult> taken, refused;
  for (const std::vector<const mlacheck_kernel*>& kernels : choices) {
    BenchResult result = time_one(bench, recipe, timed, library, kernels);
    (result.status == Status::refused ? refused : taken).push_back(std::move(result));
  }
  if (!taken.empty()) return taken;
  if (!refused.empty()) return refused;
  BenchResult none;
  none.kernel = library.path().filename().string();
  none.timed = timed;
  none.status = Status::skipped;
  for (const std::int32_t op : bench.ops())
    none.detail += fmt::format("{}{}", none.detail.empty() ? "has no kernel for " : ", then ",
                               operator_name(op));
  none.repro = fmt::format("mlacheck kernels {}", library.path().string());
  return {none};
}

void bench_recipe(Recipe recipe, const BenchOptions& options, std::int64_t l2_bytes,
                  const std::vector<KernelLibrary>& libraries, RateMeter& meter,
                  BenchReport& report) {
  std::vector<std::int64_t> sizes = options.tokens;
  if (sizes.empty()) sizes = {std::visit([](const auto& r) { return r.tokens; }, recipe)};
  std::vector<TimedCalls> timed;
  std::int64_t rows = 0;
  for (const std::int64_t tokens : sizes) {
    timed.push_back(timed_calls(recipe, tokens, l2_bytes, options.batch_invariant));
    rows = std::max(rows, tokens * timed.back().calls);
  }
  recipe = with_tokens(recipe, rows);
  validate(recipe);
  const RateMeter::Answer rates = meter.rates(recipe);
  report.begin(minimal(recipe), rates);
  std::vector<std::unique_ptr<BenchCase>> cases;
  if (options.chain)
    cases.push_back(make_chain_bench(recipe));
  else
    cases = make_bench_cases(recipe);
  for (const std::unique_ptr<BenchCase>& bench : cases)
    for (const TimedCalls& calls : timed) {
      const CallWork work = bench->work(calls);
      for (const KernelLibrary& library : libraries)
        for (BenchResult& result : time_library(*bench, recipe, calls, library)) {
          result.work = work;
          if (rates.refusal.empty()) result.floor = floor_of(work, rates.rates);
          report.add(result);
        }
    }
}

int run_bench(BenchOptions options) {
  if (options.recipes.empty()) {
    options.recipes = default_recipes();
    if (options.tokens.empty()) options.tokens = kDefaultTokens;
  }
  std::vector<Recipe> recipes;
  for (const std::string& line : options.recipes) {
    recipes.push_back(parse_recipe(line));
    require_work(recipes.back());
    if (options.batch_invariant && !std::holds_alternative<SparseAttentionRecipe>(recipes.back()))
      throw std::invalid_argument(fmt::format(
          "bench: '{}': --batch-invariant is a mode of op=sparse_attention alone", line));
  }
  if (options.chain && !std::ranges::all_of(recipes, [](const Recipe& recipe) {
        const auto* scores = std::get_if<IndexScoresRecipe>(&recipe);
        return scores != nullptr && scores->requests == 1;
      }))
    throw std::invalid_argument("bench: --chain takes op=index_scores of one request");
  if (options.json) require_writable(*options.json, kJsonReport);
  std::vector<KernelLibrary> libraries = options.kernels.load();

  const std::optional<GpuInfo> gpu = find_gpu();
  const auto own = gpu_library(), floors = floors_library();
  if (!gpu || !own || !floors) {
    fmt::print("{} bench: {}\n", name_of(Status::skipped),
               !gpu ? "there is no GPU here"
                    : "libmlacheck_gpu.so and libmlacheck_floors.so are not beside the program: it "
                      "was built without nvcc");
    return kExitSkipped;
  }
  libraries.insert(libraries.begin(), load_library(*own, options.kernels.timeout()));
  RateMeter meter(load_library(*floors, options.kernels.timeout()));
  BenchReport report(*gpu, options.json);
  for (const Recipe& recipe : recipes)
    bench_recipe(recipe, options, gpu->l2_bytes, libraries, meter, report);
  for (const KernelLibrary& library : libraries)
    for (CheckResult& end : check_end(library, "mlacheck bench" + kernel_options_of(library)))
      report.add_end(std::move(end));
  return report.finish();
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Times kernels on a GPU against what it does at best, and checks what they wrote");
  command->add_option(
      "recipe", options->recipes,
      "Cases of an operator, each quoted; default: sparse_attention with 8, 16, 64 and "
      "128 heads, 2,048 entries of 131,072 slots");
  command
      ->add_option("--tokens", options->tokens,
                   "Rows of a call, one size after another, in place of a recipe's t; default "
                   "without a recipe: 1,8,64,256,1024,4096")
      ->delimiter(',')
      ->allow_extra_args(false)  // a recipe may follow
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--batch-invariant", options->batch_invariant,
                    "Ask for the mode in which a row has the same bits alone and in any batch");
  command
      ->add_flag("--chain", options->chain,
                 "Of op=index_scores: scores, top_k, map_slots where there is a block table, and "
                 "sparse_attention of 64 heads, in turn")
      ->excludes("--batch-invariant");
  add_kernel_options(*command, options->kernels);
  command->add_option("--json", options->json, "Write the results as JSON to this file");
  command->footer(
      "graph us   a call of a CUDA graph of calls one after another: median of 11 graphs\n"
      "single us  a call alone on an idle stream, between two events: median of 21\n"
      "work MiB   of workspace that the kernel asked for\n"
      "floor us   the larger of the bytes that a call must move and the products that it must\n"
      "           make, at the rates that were measured in the same run\n"
      "Calls take turns on inputs that are larger than the L2 cache together. Outputs are "
      "poisoned\n"
      "before the last graph; some rows of what it leaves are put to the oracle, and a kernel "
      "that\n"
      "is wrong is no PASS.\n\n" +
      std::string(kExitCodeHelp));
  command->callback([options, &action] { action = [options] { return run_bench(*options); }; });
}

}  // namespace mlacheck
