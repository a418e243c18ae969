#include <algorithm>
#include <numeric>

#include "property_tests/stages/index_attempt.h"
#include "property_tests/stages/leave_out.h"

namespace mlacheck::stages {

IndexAttempt::IndexAttempt(const IndexScoresCase& from, const NumericsContract& declared,
                           const std::vector<float>& answer)
    : original(from),
      tokens(from.problem.tokens),
      heads(from.problem.heads),
      dim(from.problem.dim),
      keys(from.problem.key_count),
      requests(from.problem.requests),
      q(static_cast<std::size_t>(tokens * heads * dim)),
      weights(from.problem.weights, from.problem.weights + tokens * heads),
      contract(declared),
      scores(answer) {
  const IndexScoresProblem& p = from.problem;
  for (std::int64_t i = 0; i < tokens * heads; ++i)
    load_row(query_address(p.q, i / heads, i % heads), p.q.dtype, dim, q.data() + i * dim);
  for (std::int64_t t = 0; t < tokens; ++t) {
    request.push_back(p.request == nullptr ? 0 : p.request[t]);
    begin.push_back(p.key_begin == nullptr ? 0 : p.key_begin[t]);
    end.push_back(p.key_end == nullptr ? static_cast<std::int32_t>(keys) : p.key_end[t]);
  }
  read_keys(p);
}

void IndexAttempt::read_keys(const IndexScoresProblem& view) {
  key.assign(static_cast<std::size_t>(requests * keys * dim), 0);
  scale.assign(static_cast<std::size_t>(requests * keys), 1);
  for (std::int64_t i = 0; i < requests * keys; ++i) {
    std::int64_t slot = i % keys;
    if (view.block_table != nullptr)
      slot = view.block_table[i / keys * view.block_table_stride + slot / view.block_size] *
                 view.block_size +
             slot % view.block_size;
    if (slot < 0 || slot >= view.keys.slots) continue;
    load_row(row_address(view.keys, slot), view.keys.dtype, dim, key.data() + i * dim);
    scale[static_cast<std::size_t>(i)] = row_scale(view.keys, slot);
  }
}

IndexScoresProblem IndexAttempt::problem() {
  store_ = key;
  store_.insert(store_.end(), scale.begin(), scale.end());
  table_.resize(static_cast<std::size_t>(requests));
  std::iota(table_.begin(), table_.end(), 0);
  IndexScoresProblem p;
  p.tokens = tokens;
  p.heads = heads;
  p.dim = dim;
  p.key_count = keys;
  p.q = {q.data(), DType::f32, heads * dim, dim};
  p.weights = weights.data();
  p.keys = flat_rows(store_.data(), DType::f32, requests * keys, dim);
  p.keys.scale_offset = std::ssize(key) * static_cast<std::int64_t>(sizeof(float));
  p.block_table = table_.data();
  p.block_table_stride = 1;
  p.requests = requests;
  p.block_size = keys;
  p.request = request.data();
  p.key_begin = begin.data();
  p.key_end = end.data();
  return p;
}

// Named too: batches of files compile as one, and variants of operators are alike.
namespace of_scores {
namespace {

using Attempt = IndexAttempt;

// ---- scores ----

bool leave_out(Attempt& a, std::int64_t first, std::int64_t last) {
  return stages::leave_out(a.q, a.dim, first, last);
}
bool no_first_element(Attempt& a) { return leave_out(a, 0, 1); }
bool no_last_element(Attempt& a) { return leave_out(a, a.dim - 1, a.dim); }
bool no_last_block(Attempt& a) { return leave_out(a, a.dim - 16, a.dim); }
bool no_rope(Attempt& a) { return leave_out(a, 0, std::min<std::int64_t>(64, a.dim)); }
bool no_other_half(Attempt& a) { return leave_out(a, 64, a.dim); }

// x = relu(x) - relu(-x), |x| = relu(x) + relu(-x): every head twice, once with -q.
bool double_heads(Attempt& a, float sign) {
  std::vector<float> q, weights;
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const auto rows = a.q.begin() + t * a.heads * a.dim, w = a.weights.begin() + t * a.heads;
    q.insert(q.end(), rows, rows + a.heads * a.dim);
    std::transform(rows, rows + a.heads * a.dim, std::back_inserter(q), [](float x) { return -x; });
    weights.insert(weights.end(), w, w + a.heads);
    std::transform(w, w + a.heads, std::back_inserter(weights), [&](float x) { return sign * x; });
  }
  a.q = std::move(q);
  a.weights = std::move(weights);
  a.heads *= 2;
  return true;
}
bool no_relu(Attempt& a) { return double_heads(a, -1); }
bool absolute(Attempt& a) { return double_heads(a, 1); }

bool no_weights(Attempt& a) {
  std::fill(a.weights.begin(), a.weights.end(), 1.0f);
  return true;
}
bool next_weight(Attempt& a) {
  std::rotate(a.weights.begin(), a.weights.begin() + 1, a.weights.end());
  return a.weights.size() > 1;
}
bool first_row_weights(Attempt& a) {
  for (std::int64_t t = 1; t < a.tokens; ++t)
    std::copy_n(a.weights.begin(), a.heads, a.weights.begin() + t * a.heads);
  return a.tokens > 1;
}
bool no_last_head(Attempt& a) {
  for (std::int64_t t = 0; t < a.tokens; ++t)
    a.weights[static_cast<std::size_t>((t + 1) * a.heads - 1)] = 0;
  return true;
}
bool no_scales(Attempt& a) {
  const bool had = a.original.problem.keys.scale_offset >= 0;
  std::fill(a.scale.begin(), a.scale.end(), 1.0f);
  return had;
}
bool next_scale(Attempt& a) {
  std::rotate(a.scale.begin(), a.scale.begin() + 1, a.scale.end());
  return a.original.problem.keys.scale_offset >= 0;
}
template <DType Type>
bool stored_in(Attempt& a) {
  if (size_of(a.contract.score_dtype) <= size_of(Type)) return false;
  a.contract.score_dtype = Type;
  return true;
}

// ---- selection of keys ----

bool set_range(Attempt& a, std::int32_t begin_shift, std::int32_t end_shift) {
  const auto last = static_cast<std::int32_t>(a.keys);
  for (std::size_t t = 0; t < a.begin.size(); ++t) {
    a.begin[t] = std::clamp(a.begin[t] + begin_shift, 0, last);
    a.end[t] = std::clamp(a.end[t] + end_shift, a.begin[t], last);
  }
  return a.original.problem.key_end != nullptr;
}
bool no_begin(Attempt& a) {
  std::fill(a.begin.begin(), a.begin.end(), 0);
  return a.original.problem.key_begin != nullptr;
}
bool no_end(Attempt& a) {
  std::fill(a.end.begin(), a.end.end(), static_cast<std::int32_t>(a.keys));
  return a.original.problem.key_end != nullptr;
}
bool no_range(Attempt& a) {
  return static_cast<int>(no_begin(a)) + static_cast<int>(no_end(a)) > 0;
}
bool end_before(Attempt& a) { return set_range(a, 0, -1); }
bool end_after(Attempt& a) { return set_range(a, 0, 1); }
bool begin_after(Attempt& a) { return set_range(a, 1, 0); }

// ---- layout ----

bool no_table(Attempt& a) {
  if (a.original.problem.block_table == nullptr) return false;
  IndexScoresProblem view = a.original.problem;
  std::vector<std::int32_t> table(
      static_cast<std::size_t>(view.requests * view.block_table_stride));
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<std::int32_t>(i) % static_cast<std::int32_t>(view.block_table_stride);
  view.block_table = table.data();
  a.read_keys(view);
  return true;
}
bool first_request(Attempt& a) {
  std::fill(a.request.begin(), a.request.end(), 0);
  return a.requests > 1;
}
bool next_key(Attempt& a) {
  if (a.keys < 2) return false;
  for (std::int64_t r = 0; r < a.requests; ++r) {
    const auto rows = a.key.begin() + r * a.keys * a.dim;
    std::copy(rows + a.dim, rows + a.keys * a.dim, rows);
    const auto scales = a.scale.begin() + r * a.keys;
    std::copy(scales + 1, scales + a.keys, scales);
  }
  return true;
}
bool no_gap(Attempt& a) {
  IndexScoresProblem view = a.original.problem;
  if (a.original.recipe.page_gap == 0) return false;
  view.keys.page_stride =
      view.keys.page_size * (view.keys.row_stride + (view.keys.scale_offset >= 0 ? 4 : 0));
  a.read_keys(view);
  return true;
}
bool next_query(Attempt& a) {
  std::rotate(a.q.begin(), a.q.begin() + a.dim, a.q.end());
  return a.tokens * a.heads > 1;
}

// ---- conventions ----

bool unmasked(Attempt& a) {
  const bool before = a.contract.masks_scores;
  a.contract.masks_scores = false;
  return before && a.original.problem.key_end != nullptr;
}
bool other_nan(Attempt& a) {
  a.contract.relu_drops_nan = !a.contract.relu_drops_nan;
  return true;
}

}  // namespace
}  // namespace of_scores

const std::vector<IndexVariant>& index_variants() {
  using namespace of_scores;
  static const std::vector<IndexVariant> variants = {
      {"scores", "ReLU was left out", no_relu},
      {"scores", "ReLU was an absolute value", absolute},
      {"scores", "the first element was left out of q . k", no_first_element},
      {"scores", "the last element was left out of q . k", no_last_element},
      {"scores", "the last 16 elements were left out of q . k", no_last_block},
      {"scores", "the first 64 elements (RoPE) were left out of q . k", no_rope},
      {"scores", "all but the first 64 elements were left out of q . k", no_other_half},
      {"scores", "head weights were left out", no_weights},
      {"scores", "each head had the weight after its own", next_weight},
      {"scores", "every row had the first row's weights", first_row_weights},
      {"scores", "the last head was left out", no_last_head},
      {"scores", "keys' scales were left out", no_scales},
      {"scores", "each key had the scale after its own", next_scale},
      {"selection", "key_begin was ignored", no_begin},
      {"selection", "key_end was ignored", no_end},
      {"selection", "ranges of keys were ignored", no_range},
      {"selection", "key_end was one less", end_before},
      {"selection", "key_end was one more", end_after},
      {"selection", "key_begin was one more", begin_after},
      {"layout", "the block table was ignored", no_table},
      {"layout", "every row was of request 0", first_request},
      {"layout", "every key was the one after it", next_key},
      {"layout", "the gap after a page was ignored", no_gap},
      {"layout", "every head had the query after its own", next_query},
      {"conventions", "scores outside a row's range were not -inf", unmasked, true},
      {"conventions", "NaN passed ReLU, or did not, other than declared", other_nan},
      {"scores", "scores were rounded to f16", stored_in<DType::f16>, true},
      {"scores", "scores were rounded to bf16", stored_in<DType::bf16>, true},
  };
  return variants;
}

}  // namespace mlacheck::stages
