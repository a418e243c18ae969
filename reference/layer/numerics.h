#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/formats/dtype.h"
#include "reference/layer/model_sizes.h"
#include "reference/operators/index_scores.h"
#include "reference/operators/kv_record_656.h"

namespace mlacheck {

// Quantisation of index queries and keys to e4m3, one scale a vector, by the rules of block_scale.h
// (ARB: both divisions as divisions).
enum class IndexQuantisation { none, p2, arb };

// Order in which the raw head weight w is multiplied by its constants and by the query's scale sq:
//
//   heads_scale_dim   ((w * Hi^-0.5) * sq) * dim^-0.5        DeepSeek, HF (sq = 1)
//   scale_dim_heads   ((w * sq) * dim^-0.5) * Hi^-0.5        vLLM
enum class IndexWeightOrder { heads_scale_dim, scale_dim_heads };

// What attention reads back as the KV row: the row itself, or the row after a 656-byte fp8 record.
enum class KvStorage { plain, record_656 };

// Everything in which implementations of the same layer differ. Whatever is not here is fixed: fp32
// arithmetic in the order of ordered_sum.h, and in bf16 numerics one rounding at the end of each
// projection, absorption, LayerNorm, Hadamard transform and attention.
struct LayerNumerics {
  DType activations = DType::f32;  // f32: no rounding point; bf16
  double eps_lora = 1e-6;          // q_a_layernorm, kv_a_layernorm
  double eps_knorm = 1e-6;         // indexer.k_norm
  int rms_norm_roundings = 0;      // f32: 0; bf16: 1, or 2 (before the weight too)
  DType rope_table = DType::f32;   // cos and sin
  int rope_roundings = 0;          // f32: 0; bf16: 1, or 3 (products and sum)
  bool index_hadamard = false;
  IndexQuantisation index_quantisation = IndexQuantisation::none;
  double index_q_eps = 0;  // floor of amax; above 0 when quantised
  double index_k_eps = 0;
  DType index_weights = DType::f32;  // result of weights_proj
  IndexWeightOrder index_weight_order = IndexWeightOrder::heads_scale_dim;
  HeadReduction index_reduction = HeadReduction::ordered;
  DType softmax_weights = DType::f32;  // before the value product
  KvStorage kv_storage = KvStorage::plain;
  kv_record_656::Writer kv_writer = kv_record_656::Writer::arb;
  kv_record_656::Reader kv_reader = kv_record_656::Reader::fp32_product;

  friend bool operator==(const LayerNumerics&, const LayerNumerics&) = default;
};

// A named profile in fp32 (activations f32) or bf16 numerics. In fp32 nothing rounds to bf16 but
// what a record stores so; the profile's fp8 formats stay.
//   hf        no fp8, no Hadamard, lora eps 1e-6, two RMSNorm roundings, bf16 RoPE; weights_proj in
//             fp32, as the model's code keeps it. A model that was cast to bf16 as a whole rounds
//             it instead: index_weights bf16, which `mlacheck oracle` takes from what was recorded
//   vllm      fp8 P2 indexer, 656-byte record written ARB, lora eps = rms_norm_eps, one RMSNorm
//             rounding, RoPE table bf16 (fp32 under yarn)
//   deepseek  the final release: Hadamard, fp8 P2 indexer, 656-byte record written P2, lora eps
//             1e-6
// Throws std::invalid_argument naming the profile or dtype when it is unknown.
LayerNumerics layer_numerics(std::string_view profile, DType activations, const ModelSizes& sizes);

std::vector<std::string> profile_names();

// Throws std::invalid_argument naming the field when fields contradict each other or the sizes.
void validate(const LayerNumerics& numerics, const ModelSizes& sizes);

// Every field as name=value, comma-separated; parse_layer_numerics reads exactly that, each field
// once, and throws std::invalid_argument naming the field that is unknown, missing, repeated or
// malformed.
std::string to_string(const LayerNumerics& numerics);
LayerNumerics parse_layer_numerics(std::string_view text);

}  // namespace mlacheck
