#include <cstring>

#include <fmt/format.h>

#include "property_tests/laws/edit.h"
#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"

namespace mlacheck::law {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 26;  // of a cache that is written anew

// Where the units of a cache (pages; rows of a flat one) go.
struct Move {
  std::vector<std::int64_t> place;  // of each unit
  std::int64_t units = 0;           // that the new cache has
};

// Every unit behind a poisoned one: unit u becomes 2u + 1. The order of the slots stays.
Move apart(std::int64_t units) {
  Move move{{}, 2 * units};
  for (std::int64_t u = 0; u < units; ++u) move.place.push_back(2 * u + 1);
  return move;
}

Move shuffled(std::int64_t units, std::uint64_t seed) {
  return {order_of(units, seed, "law.moved_pages"), units};
}

// The tensor's units in their new places, NaN in those that are new.
Tensor moved(const Tensor& from, const Move& move) {
  Tensor to = from;
  const std::size_t unit = from.bytes.size() / move.place.size();
  to.shape.front() = move.units;
  to.bytes.assign(static_cast<std::size_t>(move.units) * unit, std::byte{0xff});
  for (std::size_t u = 0; u < move.place.size(); ++u)
    std::memcpy(to.bytes.data() + static_cast<std::size_t>(move.place[u]) * unit,
                from.bytes.data() + u * unit, unit);
  return to;
}

void move_attention(SparseAttentionCase& c, const Move& move) {
  SparseAttentionRecipe& r = c.recipe;
  const std::int64_t page = r.page_size == 0 ? 1 : r.page_size;
  const std::int64_t before = r.slots;
  // Of whole units; so many slots that the last one's is the last of all.
  r.slots = 0;
  for (std::int64_t u = 0; u < std::ssize(move.place); ++u)
    r.slots = std::max(r.slots, move.place[static_cast<std::size_t>(u)] * page +
                                    std::min(page, before - u * page));
  for (std::int32_t& slot : elements<std::int32_t>(tensor(c.inputs, "indices"))) {
    if (slot < 0) continue;
    if (slot >= before)
      slot = slot == before ? static_cast<std::int32_t>(r.slots) : slot;
    else
      slot = static_cast<std::int32_t>(move.place[static_cast<std::size_t>(slot / page)] * page +
                                       slot % page);
  }
  Tensor& kv = tensor(c.inputs, "kv");
  kv = moved(kv, move);
  if (r.kv == KvFormat::record656) return;  // the call reads the tensor itself
  c.problem.kv.data = kv.bytes.data();
  c.problem.kv.slots = r.slots;
  if (r.page_size == 0) c.problem.kv.page_size = r.slots;
}

// A cache in which a slot past the last of a page that is not full would exist must not be made.
bool fits(std::int64_t slots, std::int64_t page, std::size_t bytes) {
  return slots > 0 && bytes <= kMostBytes && 2 * slots + page < (std::int64_t{1} << 31);
}

void run_attention(const SparseAttentionRecipe& recipe, LawTrial& trial) {
  const SparseAttentionCase whole(recipe);
  const std::int64_t page = recipe.page_size == 0 ? 1 : recipe.page_size;
  if (!fits(recipe.slots, page, whole.inputs[1].bytes.size()))
    return trial.skip("the cache is empty or too large to be written anew");
  const std::int64_t units = (recipe.slots + page - 1) / page;
  const char* unit = recipe.page_size == 0 ? "rows" : "pages";
  const auto first = trial.run(whole, "");
  if (!first) return;

  SparseAttentionCase c(recipe);
  move_attention(c, apart(units));
  std::string what = fmt::format("{} moved apart", unit);
  if (const auto call = trial.run(c, what)) {
    if (trial.contract().run_deterministic)
      trial.expect_bits(*first, *call, what);
    else
      trial.expect_inside(whole.problem, *call, what);
  }
  // The order of the slots changes, and a kernel may read them in that order.
  c = SparseAttentionCase(recipe);
  if (recipe.slots % page != 0) return;
  move_attention(c, shuffled(units, recipe.seed));
  what = fmt::format("{} shuffled", unit);
  if (const auto call = trial.run(c, what)) trial.expect_inside(whole.problem, *call, what);
}

// Blocks in other places, and as many that nothing names.
void run_index(IndexScoresRecipe recipe, LawTrial& trial) {
  recipe.stretch = false;
  IndexScoresCase c(recipe);
  if (recipe.table == BlockTable::none) return trial.skip("the case has no block table");
  Tensor& keys = tensor(c.inputs, "keys");
  if (!fits(c.problem.keys.slots, recipe.page_size, keys.bytes.size()))
    return trial.skip("the cache is empty or too large to be written anew");
  const auto first = trial.run(c.problem, "");
  if (!first) return;
  const std::int64_t units = keys.shape.front();
  Move move = shuffled(units, recipe.seed);
  for (std::int64_t& place : move.place) place = 2 * place + 1;
  move.units = 2 * units;
  for (std::int32_t& block : elements<std::int32_t>(tensor(c.inputs, "block_table")))
    if (0 <= block && block < units)
      block = static_cast<std::int32_t>(move.place[static_cast<std::size_t>(block)]);
  keys = moved(keys, move);
  c.problem.keys.data = keys.bytes.data();
  c.problem.keys.slots = move.units * recipe.page_size;
  const auto second = trial.run(c.problem, "pages moved");
  if (!second) return;
  if (trial.contract().run_deterministic)
    trial.expect_bits(*first, *second, "pages moved");
  else
    trial.expect_inside(c.problem, *second, "pages moved");
}

void run_moved_pages(const Recipe& recipe, LawTrial& trial) {
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe))
    run_attention(trial.as_read(*attention), trial);
  else
    run_index(std::get<IndexScoresRecipe>(recipe), trial);
}

bool has_cache(const Recipe& recipe, const mlacheck_kernel& kernel) {
  return is_attention(recipe, kernel) || is_index(recipe, kernel);
}

}  // namespace

Law moved_pages() {
  return {"moved_pages",
          "pages, or rows of a flat cache, in other places: the same bits where the order of the "
          "slots stays, inside the interval otherwise",
          has_cache, run_moved_pages};
}

}  // namespace mlacheck::law
