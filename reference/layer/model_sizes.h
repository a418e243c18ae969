#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlacheck {

// Which elements of a rotated vector form pair i of n = dim / 2.
//   interleaved ("GPT-J"): (x[2i], x[2i + 1])      half_split ("NeoX"): (x[i], x[i + n])
enum class RopePairing { interleaved, half_split };

enum class RopeType { standard, yarn };

// rope_parameters (or rope_theta and rope_scaling) of config.json. The fields after theta belong to
// yarn.
struct RopeParameters {
  RopeType type = RopeType::standard;  // "default" in config.json
  double theta = 10000;
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double mscale = 1;
  double mscale_all_dim = 0;  // 0: the softmax scale is not corrected
  std::int64_t original_max_position_embeddings = 4096;
  friend bool operator==(const RopeParameters&, const RopeParameters&) = default;
};

enum class IndexerType { full, shared };

// The attention-relevant values of a model's config.json, under its names.
struct ModelSizes {
  std::string name;  // "glm5", ...: for provenance alone
  std::string model_type;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;  // without the MTP layer, which has this index
  std::int64_t num_attention_heads = 0;
  std::int64_t q_lora_rank = 0;
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  std::int64_t index_n_heads = 0;
  std::int64_t index_head_dim = 0;
  std::int64_t index_topk = 0;
  double rms_norm_eps = 0;
  std::int64_t max_position_embeddings = 0;
  RopeParameters rope;
  RopePairing rope_pairing = RopePairing::interleaved;
  RopePairing indexer_rope_pairing = RopePairing::interleaved;
  // Index sharing, strongest first: one type a layer; one letter a layer, 'F' or 'S'; a period.
  std::vector<IndexerType> indexer_types;
  std::string index_topk_pattern;
  std::int64_t index_topk_freq = 1;
  std::int64_t index_skip_topk_offset = 2;

  std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  // Width of a query and of a KV row in the absorbed form.
  std::int64_t latent_head_dim() const { return kv_lora_rank + qk_rope_head_dim; }

  friend bool operator==(const ModelSizes&, const ModelSizes&) = default;
};

// "glm5", "glm52", "dsv32", and each with ":tiny": small sizes, every structural feature.
// Throws std::invalid_argument naming the model when it is unknown.
ModelSizes model_sizes(std::string_view name);

// The names that model_sizes() knows.
std::vector<std::string> model_names();

// Throws std::invalid_argument naming the key and its value when sizes contradict themselves.
void validate(const ModelSizes& sizes);

// Factor on q . k before the softmax: qk_head_dim^-0.5, times m^2 under yarn with
// m = 0.1 * mscale_all_dim * ln(factor) + 1 (factor > 1). Computed in double, rounded once.
float softmax_scale(const ModelSizes& sizes);

// Whether the layer owns an indexer; a layer that does not reuses the top-k of the nearest earlier
// one that does (HF and vLLM): indexer_types, else index_topk_pattern, else
//   max(layer - index_skip_topk_offset + 1, 0) % index_topk_freq == 0.
// The MTP layer, num_hidden_layers, is full. Throws std::invalid_argument for a layer beyond it.
bool is_full_index_layer(const ModelSizes& sizes, std::int64_t layer);

// The layer whose top-k this one uses: itself when it is full, else the nearest earlier full one.
// Throws like is_full_index_layer.
std::int64_t full_index_layer_of(const ModelSizes& sizes, std::int64_t layer);

}  // namespace mlacheck
