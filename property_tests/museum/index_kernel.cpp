#include "property_tests/museum/index_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "property_tests/museum/element_type.h"
#include "reference/arithmetic/ordered_sum.h"
#include "reference/operators/views.h"

namespace mlacheck::museum {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

std::size_t unsigned_of(std::int64_t n) { return static_cast<std::size_t>(n); }

// max(0, dot) of which NaN stays NaN.
float honest_term(float weight, float dot) { return weight * (dot < 0 ? 0.0f : dot); }

// Row t: [key_count].
std::vector<float> scores_of(const IndexKernel& kernel, const IndexCall& call, std::int64_t t) {
  const auto& p = call.problem;
  const DType dtype = element_type(p.q_dtype);
  std::vector<float> q(unsigned_of(p.heads * p.dim));
  std::vector<float> weights(unsigned_of(p.heads));
  for (std::int64_t h = 0; h < p.heads; ++h) {
    float* const head = q.data() + h * p.dim;
    load_row(static_cast<const std::byte*>(call.tensors.q) +
                 (t * p.q_token_stride + h * p.q_head_stride) *
                     static_cast<std::int64_t>(size_of(dtype)),
             dtype, p.dim, head);
    if (kernel.query != nullptr) kernel.query(call, head);
    weights[unsigned_of(h)] = kernel.weight != nullptr ? kernel.weight(call, t, h)
                                                       : call.tensors.weights[t * p.heads + h];
  }
  KeyRange range = range_of(call, t);
  if (kernel.range != nullptr) kernel.range(call, t, range);
  const auto dot = kernel.dot != nullptr ? kernel.dot : ordered_dot;
  const auto term = kernel.term != nullptr ? kernel.term : honest_term;
  const auto slot = kernel.slot != nullptr ? kernel.slot : slot_of;
  const auto read = kernel.read != nullptr ? kernel.read : read_key;
  std::vector<float> scores(unsigned_of(p.key_count), kMinusInfinity);
  std::vector<float> key(unsigned_of(p.dim));
  std::vector<float> terms(unsigned_of(p.heads));
  for (std::int64_t s = range.begin; s < range.end; ++s) {
    float scale = 1;
    read(call, slot(call, t, s), key.data(), scale);
    for (std::int64_t h = 0; h < p.heads; ++h)
      terms[unsigned_of(h)] =
          term(weights[unsigned_of(h)], dot(q.data() + h * p.dim, key.data(), p.dim));
    scores[unsigned_of(s)] = scale * ordered_sum(terms.data(), p.heads);
  }
  return scores;
}

}  // namespace

std::int64_t slot_of(const IndexCall& call, std::int64_t t, std::int64_t s) {
  const mlacheck_tensors& tensors = call.tensors;
  if (tensors.block_table == nullptr) return s;
  const std::int64_t request = tensors.request != nullptr ? tensors.request[t] : 0;
  const std::int64_t size = call.problem.keys.page_size;
  return tensors.block_table[request * call.problem.block_table_stride + s / size] * size +
         s % size;
}

void read_key(const IndexCall& call, std::int64_t slot, float* key, float& scale) {
  const mlacheck_cache& keys = call.problem.keys;
  const auto* const page =
      static_cast<const std::byte*>(call.tensors.cache) + slot / keys.page_size * keys.page_stride;
  const std::int64_t row = slot % keys.page_size;
  load_row(page + row * keys.row_stride, element_type(keys.dtype), call.problem.dim, key);
  scale = 1;
  if (keys.format == MLACHECK_CACHE_INDEX_PAGES)
    std::memcpy(
        &scale,
        page + keys.page_size * keys.row_stride + row * static_cast<std::int64_t>(sizeof(scale)),
        sizeof(scale));
}

KeyRange range_of(const IndexCall& call, std::int64_t t) {
  const mlacheck_tensors& tensors = call.tensors;
  return {tensors.range_begin != nullptr ? tensors.range_begin[t] : 0,
          tensors.range_end != nullptr ? tensors.range_end[t] : call.problem.key_count};
}

void run(const IndexKernel& kernel, const IndexCall& call) {
  for (std::int64_t t = 0; t < call.problem.tokens; ++t) {
    std::vector<float> scores = scores_of(kernel, call, t);
    if (kernel.finish != nullptr && !kernel.finish(call, t, scores)) continue;
    KeyRange stored = {0, call.problem.key_count};
    if (call.unmasked && !kernel.always_masks) stored = range_of(call, t);
    std::copy(scores.begin() + stored.begin, scores.begin() + stored.end,
              call.tensors.scores_out + t * call.problem.score_stride + stored.begin);
  }
}

void run_select(const IndexKernel& kernel, const mlacheck_index_select_problem& problem,
                const mlacheck_tensors& tensors) {
  const IndexCall call = {problem.scores, tensors};
  for (std::int64_t t = 0; t < problem.scores.tokens; ++t) {
    std::vector<float> scores = scores_of(kernel, call, t);
    if (kernel.finish != nullptr && !kernel.finish(call, t, scores)) continue;
    const KeyRange range = range_of(call, t);
    TopKRow row = {scores.data(), range.begin, range.end, problem.k, {}, {}};
    std::ranges::copy(select(kernel.select, row), tensors.selected + t * problem.k);
  }
}

mlacheck_contract index_contract() {
  mlacheck_contract contract = {};
  contract.struct_size = sizeof(contract);
  contract.index_dot = kLanes;
  contract.index_heads = kLanes;
  contract.score_dtype = MLACHECK_F32;
  contract.batch_invariant = 1;
  contract.run_deterministic = 1;
  return contract;
}

}  // namespace mlacheck::museum
