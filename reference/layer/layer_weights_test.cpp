#include "reference/layer/layer_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "reference/layer/layer_testing.h"

namespace mlacheck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::int64_t> shape_of(const char* model, const std::string& name) {
  for (const ExpectedTensor& tensor : expected_tensors(model_sizes(model), true))
    if (tensor.name == name) return tensor.shape;
  return {};
}

TEST(ExpectedTensors, HaveTheCheckpointsShapes) {
  EXPECT_THAT(shape_of("glm5", "q_a_proj.weight"), ElementsAre(2048, 6144));
  EXPECT_THAT(shape_of("glm5", "q_b_proj.weight"), ElementsAre(16384, 2048));
  EXPECT_THAT(shape_of("glm5", "kv_a_proj_with_mqa.weight"), ElementsAre(576, 6144));
  EXPECT_THAT(shape_of("glm5", "kv_b_proj.weight"), ElementsAre(28672, 512));
  EXPECT_THAT(shape_of("glm5", "o_proj.weight"), ElementsAre(6144, 16384));
  EXPECT_THAT(shape_of("glm5", "indexer.wq_b.weight"), ElementsAre(4096, 2048));
  EXPECT_THAT(shape_of("glm5", "indexer.k_norm.bias"), ElementsAre(128));
  EXPECT_THAT(shape_of("dsv32", "indexer.weights_proj.weight"), ElementsAre(64, 7168));
  EXPECT_EQ(expected_tensors(model_sizes("glm5"), true).size(), 12u);
  EXPECT_EQ(expected_tensors(model_sizes("glm5"), false).size(), 7u);
}

// A source that serves random tensors under their full names and records what it was asked for.
struct Source {
  ModelSizes sizes = model_sizes("glm52:tiny");
  LayerWeights weights = testing::random_weights(sizes, true, 1);
  std::vector<std::string> asked;

  LayerWeights load(std::int64_t layer) {
    return load_layer_weights(sizes, layer, [&](const std::string& name) {
      asked.push_back(name);
      for (const ExpectedTensor& tensor : expected_tensors(sizes, true))
        if (tensor_name(layer, tensor.name) == name) return weights.*tensor.member;
      throw std::out_of_range(name);
    });
  }
};

TEST(LoadLayerWeights, AsksForTheIndexerOnFullLayersAlone) {
  Source source;
  EXPECT_FALSE(source.load(2).indexer_wk.empty());
  EXPECT_EQ(source.asked.size(), 12u);
  EXPECT_EQ(source.asked[0], "model.layers.2.self_attn.q_a_proj.weight");
  source.asked.clear();
  const LayerWeights shared = source.load(3);
  EXPECT_EQ(source.asked.size(), 7u);
  EXPECT_TRUE(shared.indexer_wk.empty());
  EXPECT_NO_THROW(validate(shared, source.sizes, false));
  EXPECT_THAT([&] { validate(shared, source.sizes, true); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("indexer.wq_b.weight: missing")));
}

TEST(LoadLayerWeights, NamesTheTensorThatDoesNotFit) {
  Source source;
  source.weights.o_proj.cols -= 1;
  EXPECT_THAT([&] { source.load(0); }, ThrowsMessage<std::invalid_argument>(HasSubstr(
                                           "model.layers.0.self_attn.o_proj.weight: expected")));
  source = Source();
  source.weights.indexer_k_norm.dtype = DType::e4m3;
  EXPECT_THAT([&] { source.load(0); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("k_norm.weight: expected f32")));
  source = Source();
  source.weights.q_a_proj.read = testing::read_weight(source.weights.q_a_proj).read;
  EXPECT_THAT([&] { source.load(0); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(
                  "q_a_proj.weight: expected data or a function that reads it, got both")));
}

}  // namespace
}  // namespace mlacheck
