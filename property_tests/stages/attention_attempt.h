#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fixtures/case.h"
#include "reference/verdict/numerics_contract.h"

namespace mlacheck::stages {

// A case and a kernel's answer, taken apart so that each part can be changed as a bug would; values
// in fp32, which holds them all. Rows of the cache are by slot, wherever they lay.
struct AttentionAttempt {
  AttentionAttempt(const SparseAttentionCase& from, const NumericsContract& declared,
                   const SparseAttentionResult& answer);

  // What the parts make; in their memory.
  SparseAttentionProblem problem() const;

  // The values of entries apart from their keys: each entry gets a row of its own, [value, key],
  // and q has zeros for the value. Fills `values`.
  void part_values();
  // Entry j of row t, present or not.
  std::int32_t& entry(std::int64_t t, std::int64_t j) {
    return indices[static_cast<std::size_t>(t * topk + j)];
  }
  bool is_present(std::int64_t t, std::int64_t j) const;
  std::int64_t length(std::int64_t t) const {
    return lengths.empty() ? topk : lengths[static_cast<std::size_t>(t)];
  }
  float* query(std::int64_t t, std::int64_t h) { return q.data() + (t * heads + h) * qk_dim; }
  float* row(std::int64_t slot) { return kv.data() + slot * qk_dim; }

  const SparseAttentionCase& original;
  std::int64_t tokens, heads, topk, slots, qk_dim, v_dim;
  float sm_scale;
  std::vector<float> q;               // [T, H, qk_dim]
  std::vector<float> kv;              // [slots, qk_dim]
  std::vector<std::int32_t> indices;  // [T, K]
  std::vector<std::int32_t> lengths;  // [T] or empty
  std::vector<float> sink;            // [H] or empty
  NumericsContract contract;
  SparseAttentionResult result;
};

// One way to be wrong; false where it changes nothing in this case.
struct AttentionVariant {
  std::string_view stage;
  std::string_view as_if;
  bool (*change)(AttentionAttempt& attempt);
  bool loosens = false;  // a wider interval explains anything small: named last, from the narrowest
};

const std::vector<AttentionVariant>& attention_key_variants();     // scores, selection, layout
const std::vector<AttentionVariant>& attention_result_variants();  // softmax, values, conventions

}  // namespace mlacheck::stages
