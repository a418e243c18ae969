#include "reference/layer/indexer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/formats/block_scale.h"
#include "reference/layer/hadamard.h"
#include "reference/layer/layer_testing.h"

namespace mlacheck {
namespace {

constexpr std::int64_t kRows = 24;
constexpr std::int64_t kFirst = 4;

struct Case {
  ModelSizes sizes;
  LayerNumerics numerics;
  LayerWeights weights;
  Matrix hidden;
  Matrix q_resid;
  RopeTable table;

  Case(const std::string& model, const std::string& profile, DType activations)
      : sizes(model_sizes(model)),
        numerics(layer_numerics(profile, activations, sizes)),
        weights(testing::random_weights(sizes, true, 1)) {
    const LayerInput input = testing::random_input(sizes, kRows, 2);
    hidden = input.hidden;
    q_resid = Matrix(kRows - kFirst, sizes.q_lora_rank);
    q_resid.data = testing::normals(q_resid.data.size(), 1, 3);
    table = rope_table(sizes.rope, sizes.qk_rope_head_dim, input.positions, numerics.rope_table);
  }
  IndexerStages run() const {
    return run_indexer(sizes, numerics, weights, hidden, q_resid, table);
  }
};

struct Dequantised {
  std::vector<double> values;
  double scale = 1;  // not in values
};

// One vector as the indexer scores it, by the functions tested elsewhere.
Dequantised prepared(const Case& c, const float* source, std::int64_t row, double floor) {
  std::vector<float> x(source, source + 128);
  apply_rope(std::span(x).first(64), c.table, row, c.sizes.indexer_rope_pairing,
             c.numerics.rope_roundings);
  if (c.numerics.index_hadamard) hadamard_128(std::span<float, 128>(x), c.numerics.activations);
  Dequantised result{{x.begin(), x.end()}};
  if (c.numerics.index_quantisation == IndexQuantisation::none) return result;
  float amax = static_cast<float>(floor);
  for (const float element : x) amax = std::max(amax, std::fabs(element));
  result.scale = c.numerics.index_quantisation == IndexQuantisation::p2
                     ? std::exp2(std::ceil(std::log2(static_cast<double>(amax) / 448)))
                     : static_cast<double>(amax / 448.0f);
  for (double& element : result.values)
    element = static_cast<double>(to_float(
        to_e4m3_saturating(static_cast<float>(element) / static_cast<float>(result.scale))));
  return result;
}

double worst_score_error(const Case& c, const IndexerStages& stages) {
  const std::int64_t heads = c.sizes.index_n_heads;
  double worst = 0;
  for (std::int64_t r = 0; r < kRows - kFirst; ++r) {
    std::vector<Dequantised> q;
    for (std::int64_t h = 0; h < heads; ++h)
      q.push_back(prepared(c, stages.index_q.row(r) + h * 128, kFirst + r, c.numerics.index_q_eps));
    for (std::int64_t s = 0; s <= kFirst + r; ++s) {
      const Dequantised k = prepared(c, stages.index_k.row(s), s, c.numerics.index_k_eps);
      double score = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        const Dequantised& head = q[static_cast<std::size_t>(h)];
        double dot = 0;
        for (std::size_t i = 0; i < 128; ++i) dot += head.values[i] * k.values[i];
        score += static_cast<double>(stages.index_weights_raw.row(r)[h]) * head.scale *
                 std::max(0.0, dot);
      }
      score *= k.scale / std::sqrt(128.0 * static_cast<double>(heads));
      worst =
          std::max(worst, std::fabs(score - static_cast<double>(stages.index_scores.row(r)[s])));
    }
  }
  return worst;
}

struct Setting {
  const char* model;
  const char* profile;
  DType activations;
};

class Indexer : public ::testing::TestWithParam<Setting> {
 protected:
  Case c{GetParam().model, GetParam().profile, GetParam().activations};
};

TEST_P(Indexer, ScoresAreTheFormula) {
  EXPECT_LT(worst_score_error(c, c.run()), 3e-6);
  c.numerics.index_reduction = HeadReduction::sequential;
  EXPECT_LT(worst_score_error(c, c.run()), 3e-6);
}

TEST_P(Indexer, EachStepShowsInTheScores) {
  const IndexerStages stages = c.run();
  Case other = c;
  other.numerics.index_hadamard = !c.numerics.index_hadamard;
  if (c.numerics.index_quantisation != IndexQuantisation::none) {  // without, it cancels
    EXPECT_GT(worst_score_error(other, stages), 1e-3);
  }
  other = c;
  other.sizes.indexer_rope_pairing = c.sizes.indexer_rope_pairing == RopePairing::interleaved
                                         ? RopePairing::half_split
                                         : RopePairing::interleaved;
  EXPECT_GT(worst_score_error(other, stages), 1e-3);
  other = c;
  other.numerics.index_quantisation = c.numerics.index_quantisation == IndexQuantisation::none
                                          ? IndexQuantisation::p2
                                          : IndexQuantisation::none;
  other.numerics.index_q_eps = other.numerics.index_k_eps = 1e-4;
  EXPECT_GT(worst_score_error(other, stages), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Profiles, Indexer,
                         ::testing::Values(Setting{"glm5:tiny", "hf", DType::f32},
                                           Setting{"glm5:tiny", "hf", DType::bf16},
                                           Setting{"glm5:tiny", "vllm", DType::bf16},
                                           Setting{"dsv32:tiny", "deepseek", DType::bf16},
                                           Setting{"dsv32:tiny", "deepseek", DType::f32},
                                           Setting{"dsv32:tiny", "vllm", DType::f32}),
                         [](const auto& setting) {
                           return std::string(setting.param.model).substr(0, 4) + "_" +
                                  setting.param.profile + "_" +
                                  std::string(name_of(setting.param.activations));
                         });

TEST(IndexerWeights, AreScaledInTheProfilesOrder) {
  Case c("glm5:tiny", "hf", DType::f32);
  c.sizes.index_n_heads = 32;  // 32^-0.5 * 128^-0.5 is not 1/64 in fp32
  c.weights = testing::random_weights(c.sizes, true, 1);
  const IndexerStages heads_first = c.run();
  c.numerics.index_weight_order = IndexWeightOrder::scale_dim_heads;
  const IndexerStages dim_first = c.run();
  constexpr float kHeads = 0x1.6a09e6p-3f;  // 32^-0.5
  constexpr float kDim = 0x1.6a09e6p-4f;    // 128^-0.5
  int differ = 0;
  for (std::size_t i = 0; i < heads_first.index_weights.data.size(); ++i) {
    const float raw = heads_first.index_weights_raw.data[i];
    EXPECT_EQ(heads_first.index_weights.data[i], (raw * kHeads) * kDim);
    EXPECT_EQ(dim_first.index_weights.data[i], (raw * kDim) * kHeads);
    differ += heads_first.index_weights.data[i] != raw / 64;
  }
  EXPECT_GT(differ, 0);
}

TEST(IndexerQuantisation, ArbitraryScalesAreTheFormulaToo) {
  Case c("glm5:tiny", "vllm", DType::bf16);
  const std::vector<float> p2 = c.run().index_scores.data;
  c.numerics.index_quantisation = IndexQuantisation::arb;
  const IndexerStages arb = c.run();
  EXPECT_LT(worst_score_error(c, arb), 3e-6);
  EXPECT_NE(arb.index_scores.data, p2);
}

}  // namespace
}  // namespace mlacheck
