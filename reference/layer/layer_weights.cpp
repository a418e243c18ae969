#include "reference/layer/layer_weights.h"

#include <fmt/format.h>

#include <stdexcept>

namespace mlacheck {
namespace {

void check(const ExpectedTensor& tensor, const Weight& weight, const std::string& name) {
  if (weight.empty()) throw std::invalid_argument(fmt::format("tensor {}: missing", name));
  if (weight.data != nullptr && weight.read)
    throw std::invalid_argument(
        fmt::format("tensor {}: expected data or a function that reads it, got both", name));
  if (weight.dtype != DType::f32 && weight.dtype != DType::f16 && weight.dtype != DType::bf16)
    throw std::invalid_argument(
        fmt::format("tensor {}: expected f32, f16 or bf16, got {}", name, name_of(weight.dtype)));
  const bool vector = tensor.shape.size() == 1;
  const std::int64_t rows = vector ? 1 : tensor.shape[0];
  const std::int64_t cols = tensor.shape.back();
  if (weight.rows != rows || weight.cols != cols)
    throw std::invalid_argument(fmt::format("tensor {}: expected shape [{}, {}], got [{}, {}]",
                                            name, rows, cols, weight.rows, weight.cols));
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelSizes& s, bool full) {
  const std::int64_t heads = s.num_attention_heads;
  std::vector<ExpectedTensor> tensors = {
      {"q_a_proj.weight", {s.q_lora_rank, s.hidden_size}, &LayerWeights::q_a_proj},
      {"q_a_layernorm.weight", {s.q_lora_rank}, &LayerWeights::q_a_layernorm},
      {"q_b_proj.weight", {heads * s.qk_head_dim(), s.q_lora_rank}, &LayerWeights::q_b_proj},
      {"kv_a_proj_with_mqa.weight",
       {s.latent_head_dim(), s.hidden_size},
       &LayerWeights::kv_a_proj_with_mqa},
      {"kv_a_layernorm.weight", {s.kv_lora_rank}, &LayerWeights::kv_a_layernorm},
      {"kv_b_proj.weight",
       {heads * (s.qk_nope_head_dim + s.v_head_dim), s.kv_lora_rank},
       &LayerWeights::kv_b_proj},
      {"o_proj.weight", {s.hidden_size, heads * s.v_head_dim}, &LayerWeights::o_proj},
  };
  if (full)
    tensors.insert(
        tensors.end(),
        {{"indexer.wq_b.weight",
          {s.index_n_heads * s.index_head_dim, s.q_lora_rank},
          &LayerWeights::indexer_wq_b},
         {"indexer.wk.weight", {s.index_head_dim, s.hidden_size}, &LayerWeights::indexer_wk},
         {"indexer.k_norm.weight", {s.index_head_dim}, &LayerWeights::indexer_k_norm},
         {"indexer.k_norm.bias", {s.index_head_dim}, &LayerWeights::indexer_k_norm_bias},
         {"indexer.weights_proj.weight",
          {s.index_n_heads, s.hidden_size},
          &LayerWeights::indexer_weights_proj}});
  return tensors;
}

std::string tensor_name(std::int64_t layer, std::string_view name) {
  return fmt::format("model.layers.{}.self_attn.{}", layer, name);
}

LayerWeights load_layer_weights(const ModelSizes& sizes, std::int64_t layer,
                                const WeightSource& source) {
  LayerWeights weights;
  for (const ExpectedTensor& tensor : expected_tensors(sizes, is_full_index_layer(sizes, layer))) {
    const std::string name = tensor_name(layer, tensor.name);
    weights.*tensor.member = source(name);
    check(tensor, weights.*tensor.member, name);
  }
  return weights;
}

void validate(const LayerWeights& weights, const ModelSizes& sizes, bool full) {
  for (const ExpectedTensor& tensor : expected_tensors(sizes, full))
    check(tensor, weights.*tensor.member, tensor.name);
}

}  // namespace mlacheck
