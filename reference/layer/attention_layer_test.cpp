#include "reference/layer/attention_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <functional>
#include <set>
#include <stdexcept>

#include "reference/layer/layer_testing.h"
#include "reference/layer/naive_layer.h"

namespace mlacheck {
namespace {

using testing::first_difference;
using ::testing::HasSubstr;
using testing::is_bf16;
using testing::naive_layer;
using testing::NaiveLayer;
using testing::random_input;
using testing::random_weights;
using testing::relative_error;
using ::testing::ThrowsMessage;

constexpr std::int64_t kRows = 24;
constexpr double kBound = 5e-6;  // fp32 against double, Frobenius

// A tiny layer: sizes, numerics, weights, input.
struct Case {
  ModelSizes sizes;
  LayerNumerics numerics;
  LayerWeights weights;
  LayerInput input;

  explicit Case(const std::string& model, const std::string& profile = "hf",
                DType activations = DType::f32, float scale = 1)
      : sizes(model_sizes(model)),
        numerics(layer_numerics(profile, activations, sizes)),
        weights(random_weights(sizes, true, 1)),
        input(random_input(sizes, kRows, 2, scale)) {}

  LayerStages run() const { return attention_layer(sizes, numerics, weights, input); }
};

double score_error(const LayerStages& stages, const NaiveLayer& naive) {
  double worst = 0;
  for (std::int64_t t = 0; t < kRows; ++t)
    for (std::int64_t s = 0; s <= t; ++s)
      worst = std::max(worst, std::fabs(static_cast<double>(stages.index_scores.row(t)[s]) -
                                        naive.scores.row(t)[s]));
  return worst;
}

class Models : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Tiny, Models, ::testing::Values("glm5:tiny", "glm52:tiny", "dsv32:tiny"));

TEST_P(Models, AbsorbedFp32IsTheExpandedFormInDouble) {
  const Case c(GetParam());
  const LayerStages stages = c.run();
  const NaiveLayer naive =
      naive_layer(c.sizes, c.weights, c.input, 1e-6, 1e-6, stages.topk_indices);
  EXPECT_LT(score_error(stages, naive), 1e-5);
  EXPECT_LT(relative_error(stages.attn_output, naive.attn_output), kBound);
  EXPECT_LT(relative_error(stages.output, naive.output), kBound);
}

TEST_P(Models, SelectTheLargestVisibleScores) {
  const Case c(GetParam());
  const LayerStages stages = c.run();
  ASSERT_EQ(stages.topk, 8);
  for (std::int64_t t = 0; t < kRows; ++t) {
    std::vector<std::pair<float, std::int32_t>> order;
    for (std::int32_t s = 0; s <= t; ++s) order.emplace_back(-stages.index_scores.row(t)[s], s);
    std::sort(order.begin(), order.end());
    std::set<std::int32_t> expected;
    for (std::size_t j = 0; j < std::min<std::size_t>(8, order.size()); ++j)
      expected.insert(order[j].second);
    const auto row = stages.topk_indices.begin() + t * 8;
    std::set<std::int32_t> got(row, row + 8);
    got.erase(-1);
    EXPECT_EQ(got, expected) << t;
    for (std::int64_t s = t + 1; s < kRows; ++s)
      EXPECT_EQ(stages.index_scores.row(t)[s], -std::numeric_limits<float>::infinity());
  }
}

struct Fault {
  const char* name;
  std::function<void(Case&)> make;
  bool shows_in_scores;  // otherwise in the output
};

// Small activations, so that eps counts.
TEST_P(Models, FaultsShowBeyondTheBound) {
  const Case right(GetParam(), "hf", DType::f32, 0.01f);
  const std::vector<Fault> faults = {
      {"pairing", [](Case& c) { c.sizes.rope_pairing = RopePairing::half_split; }, false},
      {"indexer pairing",
       [](Case& c) {
         c.sizes.indexer_rope_pairing = c.sizes.indexer_rope_pairing == RopePairing::half_split
                                            ? RopePairing::interleaved
                                            : RopePairing::half_split;
       },
       true},
      {"bias",
       [](Case& c) {
         c.weights.indexer_k_norm_bias =
             testing::bf16_weight(1, 128, std::vector<float>(128, 0.0f));
       },
       true},
      {"eps_lora", [](Case& c) { c.numerics.eps_lora = 1e-5; }, false},
      {"eps_knorm", [](Case& c) { c.numerics.eps_knorm = 1e-5; }, true},
      {"theta", [](Case& c) { c.sizes.rope.theta *= 10; }, false},
      {"softmax scale",
       [](Case& c) {
         c.sizes.rope = {.type = RopeType::yarn,
                         .theta = c.sizes.rope.theta,
                         .factor = 40,
                         .mscale_all_dim = 0.5};
       },
       false},
      {"position offset", [](Case& c) { c.input.positions.back() += 1; }, true},
  };
  const LayerStages stages = right.run();
  const NaiveLayer naive =
      naive_layer(right.sizes, right.weights, right.input, 1e-6, 1e-6, stages.topk_indices);
  EXPECT_LT(score_error(stages, naive), 1e-6);
  EXPECT_LT(relative_error(stages.output, naive.output), kBound);
  for (const Fault& fault : faults) {
    Case wrong = right;
    fault.make(wrong);
    wrong.input.forced_indices = {stages.topk_indices.data(), kRows, stages.topk};
    const LayerStages bad = wrong.run();
    if (fault.shows_in_scores) {
      EXPECT_GT(score_error(bad, naive), 1e-5) << fault.name;
    } else {
      EXPECT_GT(relative_error(bad.output, naive.output), 2 * kBound) << fault.name;
    }
  }
}

TEST_P(Models, Bf16RoundsAtEveryRoundingPoint) {
  for (const std::string& profile : profile_names()) {
    const LayerStages fp32 = Case(GetParam(), profile).run();
    const LayerStages bf16 = Case(GetParam(), profile, DType::bf16).run();
    const std::set<std::string_view> fp32_stages = {"index_weights", "index_scores", "lse",
                                                    "topk_indices"};
    const std::vector<StageView> unrounded = views(fp32);
    for (const StageView& stage : views(bf16)) {
      if (fp32_stages.contains(stage.name)) continue;
      if (stage.name == "index_weights_raw" && profile != "vllm") continue;
      EXPECT_TRUE(std::all_of(stage.values.begin(), stage.values.end(), is_bf16))
          << profile << " " << stage.name;
      const auto same_stage = std::find_if(unrounded.begin(), unrounded.end(),
                                           [&](const auto& s) { return s.name == stage.name; });
      EXPECT_FALSE(std::all_of(same_stage->values.begin(), same_stage->values.end(), is_bf16))
          << profile << " " << stage.name;
    }
    EXPECT_LT(relative_error(bf16.kv, fp32.kv), 0.01);
  }
}

TEST_P(Models, ProfilesDifferButDescribeOneLayer) {
  Case hf(GetParam());
  const LayerStages expected = hf.run();
  for (const std::string profile : {"vllm", "deepseek"})
    for (const DType activations : {DType::f32, DType::bf16}) {
      Case other(GetParam(), profile, activations);
      other.input.forced_indices = {expected.topk_indices.data(), kRows, expected.topk};
      const double error = relative_error(other.run().output, expected.output);
      EXPECT_GT(error, 1e-3) << profile;  // e4m3 latents
      EXPECT_LT(error, 0.06) << profile;
    }
}

// Every row of a run must be a function of the rows before it alone.
TEST_P(Models, LaterQueriesAloneGiveTheSameBits) {
  for (const std::string& profile : profile_names())
    for (const DType activations : {DType::f32, DType::bf16}) {
      Case c(GetParam(), profile, activations);
      const LayerStages full = c.run();
      c.input.first_query_row = 17;
      const LayerStages part = c.run();
      EXPECT_EQ(part.output.rows, kRows - 17);
      EXPECT_EQ(first_difference(full, part), "") << profile;
      c.input.hidden.data[0] = 4;
      EXPECT_NE(first_difference(full, c.run()), "");
    }
}

TEST_P(Models, OneThreadAndTwoGiveTheSameBits) {
  const int threads = omp_get_max_threads();
  for (const std::string& profile : profile_names()) {
    const Case c(GetParam(), profile, DType::bf16);
    omp_set_num_threads(1);
    const LayerStages one = c.run();
    omp_set_num_threads(2);
    EXPECT_EQ(first_difference(one, c.run()), "") << profile;
  }
  omp_set_num_threads(threads);
}

TEST(AttentionLayer, IsCausal) {
  Case c("glm5:tiny", "vllm", DType::bf16);
  const LayerStages before = c.run();
  for (std::int64_t i = 0; i < c.sizes.hidden_size; ++i) c.input.hidden.row(kRows - 1)[i] = 1;
  const LayerStages after = c.run();
  const auto earlier = static_cast<std::ptrdiff_t>((kRows - 1) * c.sizes.hidden_size);
  EXPECT_TRUE(std::equal(before.output.data.begin(), before.output.data.begin() + earlier,
                         after.output.data.begin()));
  EXPECT_FALSE(std::equal(before.output.data.begin() + earlier, before.output.data.end(),
                          after.output.data.begin() + earlier));
}

TEST(AttentionLayer, SharedLayersReuseIndicesAndNeedNoIndexer) {
  const Case full("glm52:tiny");
  const LayerStages first = full.run();
  Case shared("glm52:tiny");
  shared.weights = random_weights(shared.sizes, false, 50);
  EXPECT_THAT([&] { shared.run(); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("indexer.wq_b.weight: missing")));
  shared.input.shared_indices = {first.topk_indices.data(), kRows, first.topk};
  const LayerStages second = shared.run();
  EXPECT_EQ(second.topk_indices, first.topk_indices);
  EXPECT_TRUE(second.index_scores.data.empty());
  for (const StageView& stage : views(second)) EXPECT_FALSE(stage.name.starts_with("index_"));

  // Its own top-k, had it an indexer, would give another output.
  shared.weights = random_weights(shared.sizes, true, 50);
  EXPECT_EQ(first_difference(second, shared.run()), "");
  shared.input.shared_indices.reset();
  const LayerStages own = shared.run();
  EXPECT_NE(own.topk_indices, first.topk_indices);
  EXPECT_GT(relative_error(own.output, second.output), 0.01);
}

TEST(AttentionLayer, ForcedIndicesMoveAttentionAlone) {
  Case c("dsv32:tiny");
  const LayerStages own = c.run();
  c.input.forced_indices = {own.topk_indices.data(), kRows, own.topk};
  EXPECT_EQ(first_difference(own, c.run()), "");
  std::vector<std::int32_t> forced(static_cast<std::size_t>(kRows), 0);  // the first token alone
  c.input.forced_indices = {forced.data(), kRows, 1};
  const LayerStages sink = c.run();
  EXPECT_EQ(sink.topk_indices, own.topk_indices);
  EXPECT_EQ(first_difference(own, sink), "attn_latent");
  for (std::int64_t i = 0; i < c.sizes.kv_lora_rank; ++i)
    EXPECT_EQ(sink.attn_latent.row(kRows - 1)[i], sink.kv.row(0)[i]);
}

TEST(AttentionLayer, StoresTheLatentAsTheRecordDoes) {
  Case c("glm5:tiny", "vllm", DType::bf16);
  const LayerStages stages = c.run();
  const Matrix rows = stored_kv(c.numerics, stages.kv, stages.k_pe);
  const auto row = rows.row(3);
  EXPECT_TRUE(std::equal(row + 512, row + 576, stages.k_pe.row(3)));
  EXPECT_FALSE(std::equal(row, row + 512, stages.kv.row(3)));
  for (std::int64_t i = 0; i < 512; ++i) EXPECT_NEAR(row[i], stages.kv.row(3)[i], 0.2f);
  c.numerics.kv_storage = KvStorage::plain;
  EXPECT_TRUE(std::equal(row, row + 512, rows.row(3)));
  const Matrix plain = stored_kv(c.numerics, stages.kv, stages.k_pe);
  EXPECT_TRUE(std::equal(plain.row(3), plain.row(3) + 512, stages.kv.row(3)));
}

TEST(AttentionLayer, AcceptsNoQueriesAndNoRows) {
  Case c("glm5:tiny", "deepseek");
  c.input.first_query_row = kRows;
  const LayerStages none = c.run();
  EXPECT_EQ(none.output.rows, 0);
  EXPECT_EQ(none.kv.rows, kRows);
  c.input = random_input(c.sizes, 0, 1);
  EXPECT_TRUE(c.run().output.data.empty());
}

TEST(AttentionLayer, ViewsMatchTheirShapes) {
  const LayerStages stages = Case("glm5:tiny").run();
  std::vector<std::string_view> names;
  for (const StageView& stage : views(stages)) {
    names.push_back(stage.name);
    EXPECT_EQ(std::ssize(stage.values) + std::ssize(stage.indices), stage.rows * stage.cols)
        << stage.name;
  }
  EXPECT_THAT(
      names, ::testing::ElementsAre("q_a", "q_resid", "kv_a", "kv", "k_pe", "q", "q_latent", "q_pe",
                                    "index_q", "index_k_proj", "index_k", "index_weights_raw",
                                    "index_weights", "index_scores", "topk_indices", "attn_latent",
                                    "lse", "attn_output", "output"));
}

TEST(AttentionLayer, NamesTheInputThatIsWrong) {
  const std::vector<std::int32_t> indices(kRows * 2, 1);  // row 0 cannot see row 1
  struct Mistake {
    const char* field;
    std::function<void(Case&)> make;
  };
  const std::vector<Mistake> mistakes = {
      {"hidden", [](Case& c) { c.input.hidden = Matrix(kRows, 7); }},
      {"hidden[0, 3]", [](Case& c) { c.input.hidden.data[3] = 1.001f; }},
      {"positions", [](Case& c) { c.input.positions.pop_back(); }},
      {"positions[5]", [](Case& c) { c.input.positions[5] = c.input.positions[4]; }},
      {"positions[0]", [](Case& c) { c.input.positions[0] = -1; }},
      {"positions[23]", [](Case& c) { c.input.positions[23] = std::int64_t{1} << 31; }},
      {"first_query_row", [](Case& c) { c.input.first_query_row = kRows + 1; }},
      {"forced_indices[0, 0]",
       [&](Case& c) {
         c.input.forced_indices = {indices.data(), kRows, 2};
       }},
      {"shared_indices",
       [&](Case& c) {
         c.input.shared_indices = {indices.data(), kRows - 1, 2};
       }},
      {"kv_b_proj", [](Case& c) { c.weights.kv_b_proj.rows += 1; }},
      {"q_lora_rank", [](Case& c) { c.sizes.q_lora_rank = 0; }},
      {"rope_roundings", [](Case& c) { c.numerics.rope_roundings = 0; }},
  };
  for (const Mistake& mistake : mistakes) {
    Case c("glm5:tiny", "hf", DType::bf16);
    mistake.make(c);
    EXPECT_THAT([&] { c.run(); }, ThrowsMessage<std::invalid_argument>(HasSubstr(mistake.field)));
  }
}

}  // namespace
}  // namespace mlacheck
