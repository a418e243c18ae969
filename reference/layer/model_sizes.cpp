#include "reference/layer/model_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reference/layer/rope_frequencies.h"

namespace mlacheck {
namespace {

ModelSizes glm5() {
  ModelSizes s;
  s.name = "glm5";
  s.model_type = "glm_moe_dsa";
  s.hidden_size = 6144;
  s.num_hidden_layers = 78;
  s.num_attention_heads = 64;
  s.q_lora_rank = 2048;
  s.kv_lora_rank = 512;
  s.qk_nope_head_dim = 192;
  s.qk_rope_head_dim = 64;
  s.v_head_dim = 256;
  s.index_n_heads = 32;
  s.index_head_dim = 128;
  s.index_topk = 2048;
  s.rms_norm_eps = 1e-5;
  s.max_position_embeddings = 202752;
  s.rope.theta = 1e6;
  return s;
}

ModelSizes glm52() {
  ModelSizes s = glm5();
  s.name = "glm52";
  s.max_position_embeddings = 1048576;
  s.rope.theta = 8e6;
  s.index_topk_freq = 4;
  s.index_skip_topk_offset = 3;
  return s;
}

ModelSizes dsv32() {
  ModelSizes s;
  s.name = "dsv32";
  s.model_type = "deepseek_v32";
  s.hidden_size = 7168;
  s.num_hidden_layers = 61;
  s.num_attention_heads = 128;
  s.q_lora_rank = 1536;
  s.kv_lora_rank = 512;
  s.qk_nope_head_dim = 128;
  s.qk_rope_head_dim = 64;
  s.v_head_dim = 128;
  s.index_n_heads = 64;
  s.index_head_dim = 128;
  s.index_topk = 2048;
  s.rms_norm_eps = 1e-6;
  s.max_position_embeddings = 163840;
  s.rope = {.type = RopeType::yarn,
            .theta = 10000,
            .factor = 40,
            .beta_fast = 32,
            .beta_slow = 1,
            .mscale = 1,
            .mscale_all_dim = 1,
            .original_max_position_embeddings = 4096};
  s.indexer_rope_pairing = RopePairing::half_split;
  return s;
}

// The 512-wide latent, the 64-wide RoPE part and the 128-wide index keys stay, so that cache
// records and kernels apply; what else can be small is small.
ModelSizes tiny(ModelSizes s) {
  s.name += ":tiny";
  s.hidden_size /= 32;
  s.num_hidden_layers = 8;
  s.num_attention_heads /= 16;
  s.q_lora_rank /= 32;
  s.qk_nope_head_dim /= 4;
  s.v_head_dim /= 4;
  s.index_n_heads /= 8;
  s.index_topk = 8;
  return s;
}

std::vector<IndexerType> types_by_period(const ModelSizes& sizes) {
  std::vector<IndexerType> types;
  for (std::int64_t layer = 0; layer < sizes.num_hidden_layers; ++layer)
    types.push_back(is_full_index_layer(sizes, layer) ? IndexerType::full : IndexerType::shared);
  return types;
}

[[noreturn]] void refuse(std::string_view key, const std::string& expected,
                         const std::string& got) {
  throw std::invalid_argument(
      fmt::format("model sizes: {}: expected {}, got {}", key, expected, got));
}

void expect_positive(std::string_view key, std::int64_t value) {
  if (value < 1) refuse(key, "at least 1", fmt::format("{}", value));
}

// A matrix has at most heads times width rows, and a size or as many tokens as columns: 2^32 * 2^24
// elements of 8 bytes are far from overflowing int64.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
constexpr std::int64_t kMaxProjection = std::int64_t{1} << 32;

void expect_size(std::string_view key, std::int64_t value) {
  if (value < 1 || value > kMaxSize)
    refuse(key, fmt::format("1 .. {}", kMaxSize), fmt::format("{}", value));
}

// Sizes within their limits: the product itself does not overflow.
void expect_projection(std::string_view keys, std::int64_t heads, std::int64_t width) {
  if (heads * width > kMaxProjection)
    refuse(keys, fmt::format("a product of at most {}", kMaxProjection),
           fmt::format("{} * {}", heads, width));
}

void validate_rope(const ModelSizes& sizes) {
  const RopeParameters& rope = sizes.rope;
  if (!(rope.theta > 1) || !std::isfinite(rope.theta))
    refuse("rope_theta", "a number above 1", fmt::format("{}", rope.theta));
  if (rope.type != RopeType::yarn) return;
  if (!(rope.factor >= 1) || !std::isfinite(rope.factor))
    refuse("rope_scaling.factor", "at least 1", fmt::format("{}", rope.factor));
  if (!(rope.beta_slow > 0) || !(rope.beta_fast >= rope.beta_slow))
    refuse("rope_scaling.beta_fast", fmt::format("at least beta_slow {} > 0", rope.beta_slow),
           fmt::format("{}", rope.beta_fast));
  if (!(rope.mscale >= 0)) refuse("rope_scaling.mscale", ">= 0", fmt::format("{}", rope.mscale));
  if (!(rope.mscale_all_dim >= 0))
    refuse("rope_scaling.mscale_all_dim", ">= 0", fmt::format("{}", rope.mscale_all_dim));
  expect_positive("rope_scaling.original_max_position_embeddings",
                  rope.original_max_position_embeddings);
}

void validate_index_sharing(const ModelSizes& sizes) {
  const std::string layers =
      fmt::format("one entry for each of {} layers", sizes.num_hidden_layers);
  if (!sizes.indexer_types.empty() && std::ssize(sizes.indexer_types) != sizes.num_hidden_layers)
    refuse("indexer_types", layers, fmt::format("{}", sizes.indexer_types.size()));
  const std::string& pattern = sizes.index_topk_pattern;
  if (!pattern.empty() && std::ssize(pattern) != sizes.num_hidden_layers)
    refuse("index_topk_pattern", layers, fmt::format("{}", pattern.size()));
  if (const auto bad = pattern.find_first_not_of("FS"); bad != std::string::npos)
    refuse("index_topk_pattern", "letters F and S", fmt::format("'{}' at {}", pattern[bad], bad));
  expect_positive("index_topk_freq", sizes.index_topk_freq);
  if (sizes.index_skip_topk_offset < 0)
    refuse("index_skip_topk_offset", "at least 0", fmt::format("{}", sizes.index_skip_topk_offset));
  if (!is_full_index_layer(sizes, 0)) {
    const char* key = !sizes.indexer_types.empty() ? "indexer_types"
                      : !pattern.empty()           ? "index_topk_pattern"
                                                   : "index_skip_topk_offset";
    refuse(key, "layer 0 to be full", "shared");
  }
}

}  // namespace

ModelSizes model_sizes(std::string_view name) {
  constexpr std::string_view kTiny = ":tiny";
  const bool is_tiny = name.ends_with(kTiny);
  const std::string_view model = is_tiny ? name.substr(0, name.size() - kTiny.size()) : name;
  ModelSizes sizes;
  if (model == "glm5")
    sizes = glm5();
  else if (model == "glm52")
    sizes = glm52();
  else if (model == "dsv32")
    sizes = dsv32();
  else
    throw std::invalid_argument(fmt::format("unknown model '{}': expected one of {}", name,
                                            fmt::join(model_names(), ", ")));
  if (is_tiny) sizes = tiny(sizes);
  if (model == "glm52") sizes.indexer_types = types_by_period(sizes);  // its config.json lists them
  return sizes;
}

std::vector<std::string> model_names() {
  return {"glm5", "glm52", "dsv32", "glm5:tiny", "glm52:tiny", "dsv32:tiny"};
}

void validate(const ModelSizes& sizes) {
  expect_size("hidden_size", sizes.hidden_size);
  expect_size("num_hidden_layers", sizes.num_hidden_layers);
  expect_size("num_attention_heads", sizes.num_attention_heads);
  expect_size("q_lora_rank", sizes.q_lora_rank);
  expect_size("kv_lora_rank", sizes.kv_lora_rank);
  expect_size("qk_nope_head_dim", sizes.qk_nope_head_dim);
  expect_size("qk_rope_head_dim", sizes.qk_rope_head_dim);
  expect_size("v_head_dim", sizes.v_head_dim);
  expect_size("index_n_heads", sizes.index_n_heads);
  expect_size("index_head_dim", sizes.index_head_dim);
  expect_size("index_topk", sizes.index_topk);
  expect_projection("num_attention_heads, qk_nope_head_dim + qk_rope_head_dim + v_head_dim",
                    sizes.num_attention_heads, sizes.qk_head_dim() + sizes.v_head_dim);
  expect_projection("num_attention_heads, kv_lora_rank + qk_rope_head_dim",
                    sizes.num_attention_heads, sizes.latent_head_dim());
  expect_projection("index_n_heads, index_head_dim", sizes.index_n_heads, sizes.index_head_dim);
  if (sizes.qk_rope_head_dim % 2 != 0)
    refuse("qk_rope_head_dim", "an even number", fmt::format("{}", sizes.qk_rope_head_dim));
  if (sizes.index_head_dim < sizes.qk_rope_head_dim)
    refuse("index_head_dim", fmt::format("at least qk_rope_head_dim {}", sizes.qk_rope_head_dim),
           fmt::format("{}", sizes.index_head_dim));
  if (!(sizes.rms_norm_eps > 0) || !(sizes.rms_norm_eps < 1))
    refuse("rms_norm_eps", "a number in (0, 1)", fmt::format("{}", sizes.rms_norm_eps));
  validate_rope(sizes);
  validate_index_sharing(sizes);
}

float softmax_scale(const ModelSizes& sizes) {
  double scale = 1 / std::sqrt(static_cast<double>(sizes.qk_head_dim()));
  if (sizes.rope.type == RopeType::yarn) {
    const double m = yarn_mscale(sizes.rope.factor, sizes.rope.mscale_all_dim);
    scale *= m * m;
  }
  return static_cast<float>(scale);
}

bool is_full_index_layer(const ModelSizes& sizes, std::int64_t layer) {
  if (layer < 0 || layer > sizes.num_hidden_layers)
    throw std::invalid_argument(fmt::format("layer {}: expected 0 .. {} (the last is MTP)", layer,
                                            sizes.num_hidden_layers));
  if (layer == sizes.num_hidden_layers) return true;
  const auto i = static_cast<std::size_t>(layer);
  if (!sizes.indexer_types.empty()) return sizes.indexer_types.at(i) == IndexerType::full;
  if (!sizes.index_topk_pattern.empty()) return sizes.index_topk_pattern.at(i) == 'F';
  const std::int64_t counted = std::max<std::int64_t>(layer - sizes.index_skip_topk_offset + 1, 0);
  return counted % sizes.index_topk_freq == 0;
}

std::int64_t full_index_layer_of(const ModelSizes& sizes, std::int64_t layer) {
  while (!is_full_index_layer(sizes, layer)) --layer;
  return layer;
}

}  // namespace mlacheck
