#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reference/formats/dtype.h"
#include "reference/layer/model_sizes.h"

namespace mlacheck {

// One tensor of a checkpoint, row-major [rows, cols] in torch's nn.Linear order [out, in]; a vector
// is one row.
struct Weight {
  DType dtype = DType::bf16;  // f32, f16, bf16
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const void* data = nullptr;         // null where `read` makes the elements
  std::shared_ptr<const void> owner;  // keeps data alive
  // Makes rows [begin, begin + count), by any number of threads at once: f32 of something smaller.
  std::function<void(std::int64_t begin, std::int64_t count, float* to)> read = {};

  bool empty() const { return data == nullptr && !read; }
};

// The tensors of one attention layer, under their names in a checkpoint without the prefix
// "model.layers.<l>.self_attn." and the suffix ".weight". A shared layer has no indexer.
struct LayerWeights {
  Weight q_a_proj;              // [q_lora_rank, hidden]
  Weight q_a_layernorm;         // [q_lora_rank]
  Weight q_b_proj;              // [heads * qk_head_dim, q_lora_rank]; per head nope, then rope
  Weight kv_a_proj_with_mqa;    // [kv_lora_rank + rope, hidden]
  Weight kv_a_layernorm;        // [kv_lora_rank]
  Weight kv_b_proj;             // [heads * (nope + v), kv_lora_rank]; per head W_UK, then W_UV
  Weight o_proj;                // [hidden, heads * v_head_dim]
  Weight indexer_wq_b;          // [index_heads * index_head_dim, q_lora_rank]
  Weight indexer_wk;            // [index_head_dim, hidden]
  Weight indexer_k_norm;        // [index_head_dim]
  Weight indexer_k_norm_bias;   // [index_head_dim]
  Weight indexer_weights_proj;  // [index_heads, hidden]
};

struct ExpectedTensor {
  std::string name;  // "q_a_proj.weight", ..., "indexer.k_norm.bias"
  std::vector<std::int64_t> shape;
  Weight LayerWeights::*member;
};

// Every tensor of a layer, the indexer's when it is full. The full name in a checkpoint is
// tensor_name(layer, name).
std::vector<ExpectedTensor> expected_tensors(const ModelSizes& sizes, bool full);

// "model.layers.<layer>.self_attn.<name>"
std::string tensor_name(std::int64_t layer, std::string_view name);

// Returns a tensor by its full name; throws when there is none.
using WeightSource = std::function<Weight(const std::string& full_name)>;

// Reads the layer's tensors (an indexer when is_full_index_layer) and checks each one's shape and
// dtype. Throws std::invalid_argument naming the tensor, or whatever the source throws.
LayerWeights load_layer_weights(const ModelSizes& sizes, std::int64_t layer,
                                const WeightSource& source);

// Throws std::invalid_argument naming the tensor whose shape or dtype is wrong or that is missing.
void validate(const LayerWeights& weights, const ModelSizes& sizes, bool full);

}  // namespace mlacheck
