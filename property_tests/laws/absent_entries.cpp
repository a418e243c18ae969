#include <array>
#include <limits>

#include <fmt/format.h>

#include "property_tests/laws/edit.h"
#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"

namespace mlacheck::law {
namespace {

using Limits = std::numeric_limits<std::int32_t>;

// What an absent entry may hold, in turn.
std::int32_t absent_value(std::int64_t slots, std::int64_t i) {
  const std::array<std::int32_t, 4> values = {Limits::min(), -1, static_cast<std::int32_t>(slots),
                                              Limits::max()};
  return values[static_cast<std::size_t>(i) % values.size()];
}

std::int64_t length_of(const SparseAttentionProblem& p, std::int64_t t) {
  return p.topk_length == nullptr ? p.topk : p.topk_length[t];
}

// The case's problem with longer rows, and what it points to.
struct Lengthened {
  Lengthened(const SparseAttentionProblem& from, std::int64_t more)
      : indices(static_cast<std::size_t>(from.tokens * (from.topk + more))),
        lengths(static_cast<std::size_t>(from.tokens)) {
    const std::int64_t width = from.topk + more;
    for (std::int64_t t = 0; t < from.tokens; ++t) {
      std::copy_n(from.indices + t * from.index_stride, from.topk, indices.begin() + t * width);
      lengths[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(length_of(from, t));
    }
  }
  void attach(SparseAttentionProblem& p, bool with_lengths) const {
    p.topk = p.index_stride = std::ssize(indices) / p.tokens;
    p.indices = indices.data();
    p.topk_length = with_lengths ? lengths.data() : nullptr;
  }

  std::vector<std::int32_t> indices;
  std::vector<std::int32_t> lengths;
};

void run_absent_values(const Recipe& recipe, LawTrial& trial) {
  SparseAttentionCase c(trial.as_read(std::get<SparseAttentionRecipe>(recipe)));
  const auto first = trial.run(c, "");
  if (!first) return;
  const std::span<std::int32_t> indices = elements<std::int32_t>(tensor(c.inputs, "indices"));
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < std::ssize(indices); ++i) {
    std::int32_t& entry = indices[static_cast<std::size_t>(i)];
    const bool past_length = i % c.problem.topk >= length_of(c.problem, i / c.problem.topk);
    if (!past_length && 0 <= entry && entry < c.problem.kv.slots) continue;
    // Past the length anything may stand, a slot too.
    entry = past_length && c.problem.kv.slots > 0 && i % 2 == 0
                ? 0
                : absent_value(c.problem.kv.slots, i);
    ++changed;
  }
  if (changed == 0) return trial.skip("the case has no absent entry");
  const auto second = trial.run(c, "absent entries hold other values");
  if (!second) return;
  if (trial.contract().run_deterministic)
    trial.expect_bits(*first, *second, "absent entries hold other values");
  else
    trial.expect_inside(c.problem, *second, "absent entries hold other values");
}

// Splits by the length of a row are free to change from here on.
constexpr std::int64_t kLongestByBits = 1 << 15;

void run_appended_absent(const Recipe& recipe, LawTrial& trial) {
  SparseAttentionCase c(trial.as_read(std::get<SparseAttentionRecipe>(recipe)));
  const bool promised = trial.contract().batch_invariant && trial.contract().run_deterministic &&
                        c.problem.topk < kLongestByBits;
  const auto make = [&] { return promised ? make_batch_invariant_call(c) : make_call(c); };
  const auto first = promised ? trial.run(make(), "batch invariant") : nullptr;
  if (promised && !first) return;
  const SparseAttentionProblem whole = c.problem;
  for (const std::int64_t more : {1, 65}) {
    Lengthened longer(whole, more);
    const std::int64_t width = whole.topk + more;
    for (std::int64_t t = 0; t < whole.tokens; ++t) {
      // A whole row stays whole; a shorter one ends where it did.
      std::int32_t& length = longer.lengths[static_cast<std::size_t>(t)];
      if (length == whole.topk) length = static_cast<std::int32_t>(width);
      for (std::int64_t j = whole.topk; j < width; ++j)
        longer.indices[static_cast<std::size_t>(t * width + j)] =
            absent_value(whole.kv.slots, t + j);
    }
    longer.attach(c.problem, whole.topk_length != nullptr);
    const std::string what = fmt::format("{} absent entries appended", more);
    const auto second = trial.run(make(), what);
    if (!second) return;
    if (promised)
      trial.expect_bits(*first, *second, what + " (batch invariant)");
    else
      trial.expect_inside(c.problem, *second, what);
  }
}

void run_past_length(const Recipe& recipe, LawTrial& trial) {
  SparseAttentionCase c(trial.as_read(std::get<SparseAttentionRecipe>(recipe)));
  const SparseAttentionProblem whole = c.problem;
  if (whole.kv.slots == 0) return trial.skip("the cache has no slot");
  constexpr std::int64_t kMore = 65;
  Lengthened longer(whole, kMore);
  const CounterRandom random(c.recipe.seed, "law.past_length");
  for (std::int64_t i = 0; i < std::ssize(longer.indices); ++i)
    if (i % (whole.topk + kMore) >= whole.topk)
      longer.indices[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(
          random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(whole.kv.slots)));
  longer.attach(c.problem, true);
  const std::string what = fmt::format("{} slots appended past topk_length", kMore);
  const auto call = trial.run(c, what);
  if (call) trial.expect_inside(whole, *call, what);
}

}  // namespace

Law absent_values() {
  return {"absent_values", "what absent entries hold changes no bit", is_attention,
          run_absent_values};
}

Law appended_absent() {
  return {"appended_absent",
          "absent entries at the end of every row change no bit in the batch-invariant mode, and "
          "stay inside the interval otherwise",
          is_attention, run_appended_absent};
}

Law past_length() {
  return {"past_length", "slots past topk_length stay out of the answer", is_attention,
          run_past_length};
}

}  // namespace mlacheck::law
