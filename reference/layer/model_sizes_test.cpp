#include "reference/layer/model_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

namespace mlacheck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ModelSizes, KnowEveryListedName) {
  for (const std::string& name : model_names()) {
    const ModelSizes sizes = model_sizes(name);
    EXPECT_EQ(sizes.name, name);
    EXPECT_NO_THROW(validate(sizes)) << name;
  }
  EXPECT_THAT([] { model_sizes("glm6"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("unknown model 'glm6'")));
  EXPECT_THROW(model_sizes("glm6:tiny"), std::invalid_argument);
}

TEST(ModelSizes, DifferWhereTheModelsDo) {
  const ModelSizes glm5 = model_sizes("glm5");
  const ModelSizes glm52 = model_sizes("glm52");
  const ModelSizes dsv32 = model_sizes("dsv32");
  EXPECT_EQ(glm5.qk_nope_head_dim, 192);
  EXPECT_EQ(glm5.v_head_dim, 256);
  EXPECT_EQ(glm5.latent_head_dim(), 576);
  EXPECT_EQ(glm5.indexer_rope_pairing, RopePairing::interleaved);
  EXPECT_EQ(glm52.rope.theta, 8e6);
  EXPECT_EQ(dsv32.indexer_rope_pairing, RopePairing::half_split);
  EXPECT_EQ(dsv32.rope_pairing, RopePairing::interleaved);
  EXPECT_EQ(dsv32.qk_head_dim(), 192);
}

TEST(SoftmaxScale, MatchesTheValuesWorkedOutByHand) {
  EXPECT_EQ(softmax_scale(model_sizes("glm5")), 0.0625f);
  // 192^-0.5 * (0.1 ln 40 + 1)^2
  EXPECT_EQ(softmax_scale(model_sizes("dsv32")), 0.1352337789f);
  ModelSizes plain = model_sizes("dsv32");
  plain.rope.mscale_all_dim = 0;
  EXPECT_EQ(softmax_scale(plain), 0.0721687836f);  // 192^-0.5
}

std::vector<std::int64_t> full_layers(const ModelSizes& sizes) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer <= sizes.num_hidden_layers; ++layer)
    if (is_full_index_layer(sizes, layer)) layers.push_back(layer);
  return layers;
}

TEST(IndexSharing, FollowsTheGlm52Table) {
  ModelSizes sizes = model_sizes("glm52");
  const auto expected = ElementsAre(0, 1, 2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58,
                                    62, 66, 70, 74, 78 /* MTP */);
  EXPECT_THAT(full_layers(sizes), expected);
  sizes.indexer_types.clear();  // the period says the same
  EXPECT_THAT(full_layers(sizes), expected);
  EXPECT_EQ(full_layers(model_sizes("glm5")).size(), 79u);
  EXPECT_EQ(full_layers(model_sizes("dsv32")).size(), 62u);
}

TEST(IndexSharing, TypesGoBeforeThePatternAndThePatternBeforeThePeriod) {
  ModelSizes sizes = model_sizes("glm5:tiny");
  sizes.num_hidden_layers = 4;
  sizes.index_topk_freq = 2;
  sizes.index_skip_topk_offset = 1;
  EXPECT_THAT(full_layers(sizes), ElementsAre(0, 2, 4));
  sizes.index_topk_pattern = "FFSS";
  EXPECT_THAT(full_layers(sizes), ElementsAre(0, 1, 4));
  using enum IndexerType;
  sizes.indexer_types = {full, shared, shared, full};
  EXPECT_THAT(full_layers(sizes), ElementsAre(0, 3, 4));
  EXPECT_THROW(is_full_index_layer(sizes, 5), std::invalid_argument);
  EXPECT_THROW(is_full_index_layer(sizes, -1), std::invalid_argument);
}

TEST(IndexSharing, ALayerUsesTheTopKOfTheNearestEarlierFullOne) {
  const ModelSizes sizes = model_sizes("glm52");
  for (const auto& [layer, full] :
       {std::pair{0, 0}, {2, 2}, {3, 2}, {5, 2}, {6, 6}, {77, 74}, {78, 78}})
    EXPECT_EQ(full_index_layer_of(sizes, layer), full) << layer;
  EXPECT_THROW(full_index_layer_of(sizes, 79), std::invalid_argument);
}

struct Contradiction {
  const char* key;
  std::function<void(ModelSizes&)> make;
};

TEST(Validate, NamesTheKeyOfEveryContradiction) {
  const std::vector<Contradiction> contradictions = {
      {"hidden_size", [](ModelSizes& s) { s.hidden_size = 0; }},
      {"num_hidden_layers", [](ModelSizes& s) { s.num_hidden_layers = -1; }},
      {"num_attention_heads", [](ModelSizes& s) { s.num_attention_heads = 0; }},
      {"q_lora_rank", [](ModelSizes& s) { s.q_lora_rank = 0; }},
      {"kv_lora_rank", [](ModelSizes& s) { s.kv_lora_rank = 0; }},
      {"qk_nope_head_dim", [](ModelSizes& s) { s.qk_nope_head_dim = 0; }},
      {"qk_rope_head_dim", [](ModelSizes& s) { s.qk_rope_head_dim = 63; }},
      {"v_head_dim", [](ModelSizes& s) { s.v_head_dim = 0; }},
      {"index_n_heads", [](ModelSizes& s) { s.index_n_heads = 0; }},
      {"index_head_dim", [](ModelSizes& s) { s.index_head_dim = 32; }},
      {"index_topk", [](ModelSizes& s) { s.index_topk = 0; }},
      {"hidden_size", [](ModelSizes& s) { s.hidden_size = INT64_MAX; }},
      {"index_head_dim", [](ModelSizes& s) { s.index_head_dim = (1 << 24) + 1; }},
      {"num_attention_heads, kv_lora_rank",
       [](ModelSizes& s) { s.num_attention_heads = 1 << 23, s.kv_lora_rank = 1 << 20; }},
      {"num_attention_heads, qk_nope_head_dim",
       [](ModelSizes& s) { s.num_attention_heads = 1 << 23, s.v_head_dim = 1 << 20; }},
      {"index_n_heads, index_head_dim",
       [](ModelSizes& s) { s.index_n_heads = 1 << 24, s.index_head_dim = 257; }},
      {"rms_norm_eps", [](ModelSizes& s) { s.rms_norm_eps = 0; }},
      {"rope_theta", [](ModelSizes& s) { s.rope.theta = 1; }},
      {"rope_scaling.factor", [](ModelSizes& s) { s.rope.factor = 0.5; }},
      {"rope_scaling.beta_fast", [](ModelSizes& s) { s.rope.beta_fast = 0.5; }},
      {"rope_scaling.mscale", [](ModelSizes& s) { s.rope.mscale = -1; }},
      {"rope_scaling.mscale_all_dim", [](ModelSizes& s) { s.rope.mscale_all_dim = -1; }},
      {"original_max_position_embeddings",
       [](ModelSizes& s) { s.rope.original_max_position_embeddings = 0; }},
      {"indexer_types", [](ModelSizes& s) { s.indexer_types = {IndexerType::full}; }},
      {"indexer_types", [](ModelSizes& s) { s.indexer_types.assign(8, IndexerType::shared); }},
      {"index_topk_pattern", [](ModelSizes& s) { s.index_topk_pattern = "FF"; }},
      {"index_topk_pattern", [](ModelSizes& s) { s.index_topk_pattern = "FFFFxFFF"; }},
      {"index_topk_freq", [](ModelSizes& s) { s.index_topk_freq = 0; }},
      {"index_skip_topk_offset",
       [](ModelSizes& s) { s.index_topk_freq = 4, s.index_skip_topk_offset = 0; }},
      {"index_skip_topk_offset", [](ModelSizes& s) { s.index_skip_topk_offset = INT64_MIN; }},
  };
  for (const Contradiction& contradiction : contradictions) {
    ModelSizes sizes = model_sizes("dsv32:tiny");
    contradiction.make(sizes);
    EXPECT_THAT([&] { validate(sizes); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(contradiction.key)));
  }
}

}  // namespace
}  // namespace mlacheck
