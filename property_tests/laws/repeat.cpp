#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "property_tests/laws/edit.h"
#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"
#include "tools/judgements.h"

namespace mlacheck::law {
namespace {

// A recipe's call, to be made any number of times, and how its answer is judged.
struct Repeatable {
  std::function<std::unique_ptr<KernelCall>()> call;
  std::function<void(const KernelCall&, const std::string&)> judge;
};

Repeatable repeatable(const Recipe& recipe, LawTrial& trial) {
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe)) {
    const auto c = std::make_shared<const SparseAttentionCase>(trial.as_read(*attention));
    return {[c] { return make_call(*c); },
            [c, &trial](const KernelCall& call, const std::string& what) {
              trial.expect_inside(c->problem, call, what);
            }};
  }
  if (const auto* scores = std::get_if<IndexScoresRecipe>(&recipe)) {
    const auto c = std::make_shared<const IndexScoresCase>(*scores);
    const bool select = trial.kernel().op == MLACHECK_INDEX_SELECT;
    return {[c, select] {
              return select ? make_select_call(c->problem, selected_keys(c->problem))
                            : make_call(c->problem);
            },
            [c, &trial](const KernelCall& call, const std::string& what) {
              trial.expect_inside(c->problem, call, what);
            }};
  }
  const auto c = std::make_shared<const TopKCase>(std::get<TopKRecipe>(recipe));
  return {[c] { return make_call(problem_of(*c)); },
          [c, &trial](const KernelCall& call, const std::string& what) {
            trial.expect_inside(*c, call, what);
          }};
}

// A later call of the same problem, or of one that differs where no answer looks.
void expect_same(LawTrial& trial, const Repeatable& made, const KernelCall& before,
                 const KernelCall& after, const std::string& what, bool by_bits) {
  if (by_bits)
    trial.expect_bits(before, after, what);
  else
    made.judge(after, what);
}

constexpr int kLaunches = 6;

// In the process that serves the kernel's calls. Inputs must stay as they are
// (KernelCall::trespasses); outputs are poisoned each time.
void run_repeated_launch(const Recipe& recipe, LawTrial& trial) {
  const Repeatable made = repeatable(recipe, trial);
  const auto first = trial.run(made.call(), "launch 1");
  for (int launch = 2; first && launch <= kLaunches; ++launch) {
    const std::string what = fmt::format("launch {}", launch);
    const auto next = trial.run(made.call(), what);
    if (!next) return;
    expect_same(trial, made, *first, *next, what, trial.contract().run_deterministic);
  }
}

// Another problem of half the sizes, or of twice; nothing where that would be slow.
std::optional<Recipe> resized(Recipe recipe, bool larger) {
  bool moderate = true;
  const auto resize = [&](std::int64_t& size, std::int64_t least, std::int64_t most) {
    size = larger ? 2 * size + 1 : std::max(size / 2, least);
    moderate = moderate && size <= most;
  };
  std::visit(
      [&]<class R>(R& r) {
        r.seed ^= 1;
        resize(r.tokens, 1, 1 << 10);
        if constexpr (std::is_same_v<R, IndexScoresRecipe>) resize(r.keys, 1, 1 << 16);
        if constexpr (std::is_same_v<R, TopKRecipe>) resize(r.scores, 1, 1 << 17);
        if constexpr (std::is_same_v<R, SparseAttentionRecipe>) resize(r.topk, 1, 1 << 12);
        if constexpr (requires { r.only; }) r.only = {};
      },
      recipe);
  if (!moderate) return std::nullopt;
  return recipe;
}

// What a kernel keeps between calls, and where it keeps it, must not show.
void run_reused_scratch(const Recipe& recipe, LawTrial& trial) {
  const Repeatable made = repeatable(recipe, trial);
  const auto before = trial.run(made.call(), "");
  if (!before) return;
  for (const bool larger : {false, true}) {
    const std::optional<Recipe> other = resized(recipe, larger);
    if (!other) continue;
    const std::string what = larger ? "a larger problem" : "a smaller problem";
    const Repeatable between = repeatable(*other, trial);
    const auto call = trial.run(between.call(), what);
    if (!call) continue;
    between.judge(*call, what);
    const auto after = trial.run(made.call(), "after " + what);
    if (!after) return;
    expect_same(trial, made, *before, *after, "after " + what, trial.contract().run_deterministic);
  }
}

// The recipe with poison where it has none, without where it has some.
Recipe with_other_poison(Recipe recipe) {
  std::visit(
      [](auto& r) {
        if constexpr (requires { r.poison; }) r.poison = !r.poison;
      },
      recipe);
  return recipe;
}

void run_unread_bytes(const Recipe& recipe, LawTrial& trial) {
  const Repeatable made = repeatable(recipe, trial);
  const auto before = trial.run(made.call(), "");
  if (!before) return;
  const std::string what = "other bytes where no entry points";
  const auto after = trial.run(repeatable(with_other_poison(recipe), trial).call(), what);
  if (!after) return;
  // Unmasked scores are of keys that no row may read.
  expect_same(trial, made, *before, *after, what,
              trial.contract().run_deterministic && trial.contract().masks_scores);
}

}  // namespace

Law repeated_launch() {
  return {"repeated_launch",
          "six launches on unchanged inputs: the same bits where promised, inside the interval "
          "otherwise",
          is_any, run_repeated_launch};
}

Law reused_scratch() {
  return {"reused_scratch", "smaller and larger problems between two calls: as repeated_launch",
          is_any, run_reused_scratch};
}

Law unread_bytes() {
  return {"unread_bytes", "poison where no entry points, or none: as repeated_launch", is_any,
          run_unread_bytes};
}

}  // namespace mlacheck::law
