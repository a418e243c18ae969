// Faults of the arithmetic of attention: products, softmax, roundings, merges, conventions.

#include <algorithm>
#include <bit>
#include <cmath>

#include "property_tests/museum/attention_kernel.h"
#include "reference/arithmetic/exp2.h"
#include "reference/operators/views.h"

namespace mlacheck::museum {

namespace {

void drop_rope(const AttentionCall& call, std::int64_t, std::int64_t, float* q) {
  std::fill(q + call.problem.v_dim, q + call.problem.qk_dim, 0.0f);
}

// Pairs (2i, 2i + 1) to (i, i + n / 2), on the key's side alone.
void halve_rope(const AttentionCall& call, std::int64_t, float* key) {
  const std::int64_t n = call.problem.qk_dim - call.problem.v_dim;
  const std::vector<float> pairs(key + call.problem.v_dim, key + call.problem.qk_dim);
  for (std::int64_t i = 0; i < n / 2; ++i) {
    key[call.problem.v_dim + i] = pairs[static_cast<std::size_t>(2 * i)];
    key[call.problem.v_dim + n / 2 + i] = pairs[static_cast<std::size_t>(2 * i + 1)];
  }
}

float scale_by_dim(const AttentionCall& call, float dot) {
  return dot / std::sqrt(static_cast<float>(call.problem.qk_dim));
}
float scale_nope_128(const AttentionCall& call, float dot) {
  return call.problem.sm_scale == 0.0625f ? 0.07216878f * dot : call.problem.sm_scale * dot;
}
float exp_in_base_2(float x) { return std::isnan(x) ? kNan : exp2_f32(x); }

// A sum of products in f16, as an f16 tensor core's f16 accumulator makes it.
float dot_in_f16(const float* a, const float* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum = round_to(DType::f16, sum + a[i] * b[i]);
  return sum;
}

float bf16_weight(float weight) { return round_to(DType::bf16, weight); }
float e4m3_weight(float weight) { return round_to(DType::e4m3, weight); }
float truncated_weight(float weight) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(weight) & 0xffff0000u);
}

void store_part_in_bf16(const AttentionCall&, AttentionPart& part) {
  for (float& a : part.acc) a = round_to(DType::bf16, a / part.sum) * part.sum;
}
// An empty part has an lse of 0, and so a weight.
void weigh_empty_part(const AttentionCall&, AttentionPart& part) {
  if (part.max != -kInfinity) return;
  part.max = 0;
  part.sum = 1;
}
void merge_without_max(const AttentionCall&, std::vector<AttentionPart>& parts) {
  for (AttentionPart& part : parts)
    if (part.max != -kInfinity) part.max = parts.front().max;
}
// The maximum takes masked lanes for logits of 0: keys far below it underflow.
void start_max_at_0(const AttentionCall&, std::vector<float>& logits) {
  if (std::ranges::find(logits, -kInfinity) == logits.end()) return;
  for (float& logit : logits)
    if (logit < -87) logit = -kInfinity;
}

void label_base_2(const AttentionCall&, std::int64_t, std::int64_t, AttentionRow& row) {
  row.lse *= kLog2E;
}
void scale_max_base_2(const AttentionCall&, std::int64_t, std::int64_t, AttentionRow& row) {
  row.max_logit *= kLog2E;
}
void add_sink_to_lse(const AttentionCall& call, std::int64_t, std::int64_t h, AttentionRow& row) {
  if (call.tensors.attn_sink == nullptr || row.lse == -kInfinity) return;
  row.lse += std::log1p(std::exp(call.tensors.attn_sink[h] - row.lse));
}
float ignore_sink(float, float) { return 1; }
float sink_in_base_2(float sink, float lse) { return 1 / (1 + exp2_f32(sink - lse * kLog2E)); }

void flush_small(const AttentionCall&, std::int64_t, std::int64_t, AttentionRow& row) {
  for (float& x : row.out)
    if (std::abs(x) < 0x1p-14f) x = 0;
}

}  // namespace

std::span<const AttentionKernel> attention_math_faults() {
  static constexpr AttentionKernel kKernels[] = {
      {.label = {"rope_dropped", "the RoPE part of q . k is left out",
                 "antirez/ds4 #936; ATOM #1379"},
       .query = drop_rope},
      {.label = {"rope_interleaved", "the key's RoPE part is half-split, the query's interleaved",
                 "transformers #46842; ATOM #1502; sglang #13530, #30111"},
       .key = halve_rope},
      {.label = {"scale_from_dim", "softmax scale qk_dim^-0.5 whatever is asked",
                 "tilelang examples/deepseek_v32"},
       .logit = scale_by_dim},
      {.label = {"scale_nope_128", "the scale of nope 128 for GLM's 192", "zai-org/GLM-5 #13"},
       .logit = scale_nope_128},
      {.label = {"exp_base_2", "exp2 of a logit without log2 e", kNoReport}, .exp = exp_in_base_2},
      {.label = {"qk_in_f16", "q . k is accumulated in f16",
                 "ik_llama.cpp #2272, #2236 (f16 accumulation)"},
       .dot = dot_in_f16},
      {.label = {"weights_bf16", "softmax weights in bf16, declared as f32", kNoReport},
       .weight = bf16_weight},
      {.label = {"weights_e4m3", "softmax weights in e4m3, declared as bf16", kNoReport},
       .weight_dtype = MLACHECK_BF16,
       .weight = e4m3_weight},
      {.label = {"weights_truncated", "softmax weights are truncated to bf16, declared as rounded",
                 kNoReport},
       .weight_dtype = MLACHECK_BF16,
       .weight = truncated_weight},
      {.label = {"missed_rescale", "the accumulator keeps its scale when the maximum rises",
                 kNoReport},
       .rescales = false},
      {.label = {"max_over_padding", "masked lanes count as logit 0 in the maximum",
                 "vllm #36524; flashinfer #4450"},
       .logits = start_max_at_0},
      {.label = {"bf16_partials", "split results are stored in bf16, declared as f32",
                 "flashinfer #5107; b12x #292"},
       .part = store_part_in_bf16},
      {.label = {"empty_part_weighs", "a split without keys has lse 0 and a weight",
                 "vllm #47779 (merge of empty parts)"},
       .part = weigh_empty_part},
      {.label = {"merge_without_max", "parts are merged as if they had the first one's maximum",
                 kNoReport},
       .merge = merge_without_max},
      {.label = {"lse_base_2", "lse in base 2, declared as natural",
                 "hermia docs/BUGS.md 3; vllm #47779"},
       .finish = label_base_2},
      {.label = {"max_logit_base_2", "max_logit in base 2, not natural units", "FlashMLA README"},
       .finish = scale_max_base_2},
      {.label = {"sink_in_lse", "lse includes the sink, declared as without",
                 "FlashMLA tests/ref.py; cudnn-frontend #793"},
       .finish = add_sink_to_lse},
      {.label = {"sink_ignored", "attn_sink is not applied", kNoReport}, .sink = ignore_sink},
      {.label = {"sink_base_2", "attn_sink is taken for a logit in base 2", kNoReport},
       .sink = sink_in_base_2},
      {.label = {"subnormal_out_flushed", "small results become 0: f16's normal range", kNoReport},
       .finish = flush_small},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
