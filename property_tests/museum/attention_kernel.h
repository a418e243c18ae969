#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "property_tests/museum/label.h"

namespace mlacheck::museum {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct AttentionCall {
  const mlacheck_sparse_attention_problem& problem;
  const mlacheck_tensors& tensors;
  std::byte* workspace;  // kWorkspaceBytes
};
inline constexpr std::size_t kWorkspaceBytes = 4096;

// One head of one token, before it is stored.
struct AttentionRow {
  std::vector<float> out;
  float lse = -kInfinity;
  float max_logit = -kInfinity;
  bool stored = true;
};

// Part of a row's entries, or all: acc is the sum of weights times values.
struct AttentionPart {
  std::vector<float> acc;
  float max = -kInfinity;
  float sum = 0;
};

// A plain kernel of online softmax and split entries: fp32, tiles of 64 entries, up to 4 splits of
// whole tiles. An exhibit has one of its steps replaced, or one of its constants changed. A hook
// that is null leaves its step as it is.
struct AttentionKernel {
  Label label;

  // Conventions and arithmetic, as declared.
  std::int32_t weight_dtype = MLACHECK_F32;
  std::int32_t record_reader = MLACHECK_READ_FP32_PRODUCT;

  // Before anything is computed; false: nothing is.
  bool (*begin)(const AttentionCall&) = nullptr;
  // The slots of a token's entries, -1 for absent ones: [topk].
  void (*entries)(const AttentionCall&, std::int64_t t, std::vector<std::int32_t>&) = nullptr;
  // In place of read_row.
  void (*read)(const AttentionCall&, std::int64_t slot, float* row) = nullptr;
  // Changes what is multiplied: the query, a key (not its value), a value; entry j of all.
  void (*query)(const AttentionCall&, std::int64_t t, std::int64_t h, float* q) = nullptr;
  void (*key)(const AttentionCall&, std::int64_t j, float* key) = nullptr;
  void (*values)(const AttentionCall&, std::vector<float>& rows) = nullptr;  // [topk, qk_dim]
  float (*dot)(const float* a, const float* b, std::int64_t n) = nullptr;
  // Of a logit of a present entry: sm_scale * dot.
  float (*logit)(const AttentionCall&, float dot) = nullptr;
  // Of all logits of a row; -inf for absent ones. A finite logit of an absent entry has a weight,
  // and slot 0 as its row.
  void (*logits)(const AttentionCall&, std::vector<float>& logits) = nullptr;
  float (*exp)(float x) = nullptr;
  // The weight that is multiplied by the value.
  float (*weight)(float weight) = nullptr;
  bool rescales = true;       // the accumulator by a new maximum
  bool guards_empty = true;   // tiles without a key, where -inf - -inf is NaN
  bool reads_masked = false;  // 0 times the value of slot 0 for an absent entry
  std::int64_t (*splits)(const AttentionCall&) = nullptr;
  void (*part)(const AttentionCall&, AttentionPart&) = nullptr;
  void (*merge)(const AttentionCall&, std::vector<AttentionPart>&) = nullptr;
  // Of the attention sink's logit; in place of the honest factor of out.
  float (*sink)(float sink, float lse) = nullptr;
  void (*finish)(const AttentionCall&, std::int64_t t, std::int64_t h, AttentionRow&) = nullptr;
  void (*end)(const AttentionCall&) = nullptr;
};

// What an honest kernel does.
void read_row(const AttentionCall& call, std::int64_t slot, float* row);
const std::byte* row_of_cache(const AttentionCall& call, std::int64_t slot);
bool is_present(const AttentionCall& call, std::int32_t slot);

void run(const AttentionKernel& kernel, const AttentionCall& call);
mlacheck_conventions conventions_of(const AttentionKernel& kernel);
mlacheck_contract contract_of(const AttentionKernel& kernel);

// The exhibits. Kernels without fault come first.
std::span<const AttentionKernel> honest_attention();
std::span<const AttentionKernel> attention_entry_faults();
std::span<const AttentionKernel> attention_math_faults();
std::span<const AttentionKernel> attention_layout_faults();
std::span<const AttentionKernel> attention_call_faults();

}  // namespace mlacheck::museum
