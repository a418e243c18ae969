#include <fmt/format.h>

#include "property_tests/laws/edit.h"
#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"

namespace mlacheck::law {
namespace {

// No contract promises that the order of a row's entries has no influence on its sums.
void run_index_order(const Recipe& recipe, LawTrial& trial) {
  SparseAttentionCase c(trial.as_read(std::get<SparseAttentionRecipe>(recipe)));
  const std::span<std::int32_t> indices = elements<std::int32_t>(tensor(c.inputs, "indices"));
  for (std::int64_t t = 0; t < c.problem.tokens; ++t) {
    const std::int64_t length =
        c.problem.topk_length == nullptr ? c.problem.topk : c.problem.topk_length[t];
    const std::span<std::int32_t> row = indices.subspan(
        static_cast<std::size_t>(t * c.problem.topk), static_cast<std::size_t>(length));
    reorder(std::as_writable_bytes(row), sizeof(std::int32_t),
            order_of(length, c.recipe.seed, fmt::format("law.index_order.{}", t)));
  }
  const auto call = trial.run(c, "entries in another order");
  if (call) trial.expect_inside(c.problem, *call, "entries in another order");
}

// The first elements of every row of a tensor, whose rows may end in slack.
void reorder_rows(Tensor& tensor, const std::vector<std::int64_t>& order) {
  const std::size_t element = size_of(tensor.dtype);
  const auto row = static_cast<std::size_t>(tensor.shape.back()) * element;
  for (std::size_t start = 0; start < tensor.bytes.size(); start += row)
    reorder(std::span(tensor.bytes).subspan(start, order.size() * element), element, order);
}

// Joint permutation of the value's elements in q and in the cache, so that q . k stays and out is
// permuted; and of the others.
void run_latent_order(const Recipe& recipe, LawTrial& trial) {
  SparseAttentionCase c(trial.as_read(std::get<SparseAttentionRecipe>(recipe)));
  const std::int64_t v = c.problem.v_dim, d = c.problem.qk_dim;
  std::vector<std::int64_t> order = order_of(v, c.recipe.seed, "law.latent_order");
  for (const std::int64_t i : order_of(d - v, c.recipe.seed, "law.rope_order"))
    order.push_back(v + i);
  reorder_rows(tensor(c.inputs, "q"), order);
  reorder_rows(tensor(c.inputs, "kv"), order);
  const auto call = trial.run(c, "elements of q and of the cache in another order");
  if (call)
    trial.expect_inside(c.problem, *call, "elements of q and of the cache in another order");
}

bool has_plain_rows(const Recipe& recipe, const mlacheck_kernel& kernel) {
  return is_attention(recipe, kernel) &&
         std::get<SparseAttentionRecipe>(recipe).kv != KvFormat::record656;
}

// Heads of a row in another order, each with its weight: the same sum of the same products.
void run_head_order(const Recipe& recipe, LawTrial& trial) {
  IndexScoresCase c(std::get<IndexScoresRecipe>(recipe));
  const std::vector<std::int64_t> order =
      order_of(c.problem.heads, c.recipe.seed, "law.head_order");
  Tensor& q = tensor(c.inputs, "q");  // a token's heads may end in slack
  const auto head = static_cast<std::size_t>(c.problem.q.head_stride) * size_of(q.dtype);
  const auto token = static_cast<std::size_t>(c.problem.q.token_stride) * size_of(q.dtype);
  for (std::size_t start = 0; start < q.bytes.size(); start += token)
    reorder(std::span(q.bytes).subspan(start, order.size() * head), head, order);
  reorder(tensor(c.inputs, "weights").bytes, sizeof(float), order);
  const auto call = trial.run(c.problem, "heads in another order");
  if (call) trial.expect_inside(c.problem, *call, "heads in another order");
}

}  // namespace

Law index_order() {
  return {"index_order", "entries of a row in another order: inside the interval", is_attention,
          run_index_order};
}

Law latent_order() {
  return {"latent_order",
          "elements of q and of the cache in another order, alike: inside the interval of the "
          "permuted answer",
          has_plain_rows, run_latent_order};
}

Law head_order() {
  return {"head_order", "heads and their weights in another order: inside the interval", is_index,
          run_head_order};
}

}  // namespace mlacheck::law
