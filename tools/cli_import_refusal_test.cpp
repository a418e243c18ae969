// What golden import says of recordings that are spoilt, or say too little.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "fixtures/golden_file.h"
#include "fixtures/model/synthetic_model.h"
#include "reference/layer/rope.h"
#include "tools/cli_import_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SpoiltRecording : public EngineRecording {};

// ---- What is wrong is named ----

TEST_F(SpoiltRecording, OfAWrongOrderIsNamedByStage) {
  for (const char* name : {"k_pe", "q_pe"}) deinterleave(stages_[name], sizes_.qk_rope_head_dim);
  expect_refused(import(), 1,
                 AllOf(HasSubstr("k_pe"), HasSubstr("it fits as rope_order deinterleaved"),
                       HasSubstr("2 FAIL")));
  stages_.erase("k_pe");
  stages_.erase("q_pe");
  EXPECT_EQ(import().code, 0);
}

TEST_F(SpoiltRecording, OfInPlaceElementsDeclaredDeinterleavedIsNamed) {
  metadata_["rope_order"] = "deinterleaved";
  expect_refused(import(), 1,
                 AllOf(HasSubstr("q_pe"), HasSubstr("it fits as rope_order interleaved")));
}

TEST_F(SpoiltRecording, OfAnotherPairingOfTheRotationIsNamed) {
  const LayerNumerics numerics = layer_numerics("hf", DType::bf16, sizes_);
  const std::int64_t rope = sizes_.qk_rope_head_dim;
  const RopeTable table = rope_table(sizes_.rope, rope, input_.positions, numerics.rope_table);
  Matrix& k_pe = stages_["k_pe"];
  for (std::int64_t r = 0; r < kTokens; ++r) {
    std::copy_n(stages_["kv_a"].row(r) + sizes_.kv_lora_rank, rope, k_pe.row(r));
    apply_rope({k_pe.row(r), static_cast<std::size_t>(rope)}, table, r, RopePairing::half_split,
               numerics.rope_roundings);
  }
  expect_refused(import(), 1, HasSubstr("it fits a rotation of half-split pairs"));
}

TEST_F(SpoiltRecording, WithAWrongStageFailsThere) {
  const std::map<std::string, Matrix> good = stages_;
  for (const auto& [name, m] : good) {
    if (name == "hidden_states") continue;
    stages_ = good;
    for (float& x : stages_[name].data) x *= 1.05f;
    const Outcome outcome = import();
    EXPECT_EQ(outcome.code, 1) << name;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("layer 0 " + name), HasSubstr("1 FAIL"))) << name;
  }
}

// The same file without the indexer's stages, so that selection is held to our scores.
TEST_F(SpoiltRecording, WithAWrongSelectionFailsThere) {
  std::int32_t* row = indices_.data() + 11 * 8;
  for (std::int32_t index = 0; index < kTokens; ++index)
    if (std::find(row, row + 8, index) == row + 8) row[index % 8] = index;
  stages_.erase("attn_latent");
  stages_.erase("attn_output");
  stages_.erase("output");
  expect_refused(
      import(), 1,
      AllOf(HasSubstr("topk_indices"), HasSubstr("the engine's own scores"), HasSubstr("1 FAIL")));
  stages_.erase("index_scores");
  expect_refused(import(), 1, AllOf(HasSubstr("members are not among ours"), HasSubstr("1 FAIL")));
}

TEST_F(SpoiltRecording, OfAnotherRotationOrNormIsFound) {
  expect_refused(import({"--profile", "deepseek"}), 1, HasSubstr("FAIL"));
  for (float& x : stages_["q_resid"].data) x = -x;
  expect_refused(import(), 1, HasSubstr("q_resid"));
}

// ---- Files that say too little, or too much ----

TEST_F(SpoiltRecording, WithoutItsOrderIsRefused) {
  metadata_.erase("rope_order");
  expect_refused(import(), 3, AllOf(HasSubstr("k_pe"), HasSubstr("--rope-order")));
  EXPECT_EQ(import({"--rope-order", "interleaved"}).code, 0);
  std::filesystem::remove(golden());
  metadata_["rope_order"] = "interleaved";
  expect_refused(import({"--rope-order", "deinterleaved"}), 3,
                 HasSubstr("the file says interleaved"));
  metadata_["rope_order"] = "sorted";
  expect_refused(import(), 3, HasSubstr("got 'sorted'"));
}

TEST_F(SpoiltRecording, WithImpossibleArraysIsRefusedByTheirName) {
  const auto good = stages_;
  const auto with = [&](const std::string& name, Matrix m) {
    stages_ = good;
    stages_[name] = std::move(m);
    return import();
  };
  expect_refused(with("kv", Matrix(kTokens, 3)), 3,
                 AllOf(HasSubstr("kv: expected"), HasSubstr("[12, 512]")));
  expect_refused(with("kvs", Matrix(kTokens, 3)), 3, HasSubstr("kvs: expected one of"));
  expect_refused(with("layer0.", Matrix(1, 1)), 3, HasSubstr("layer0.: expected one of"));
  EXPECT_EQ(with("layer1.kv", Matrix(1, 1)).code, 0);  // of another layer
}

TEST_F(SpoiltRecording, WithValuesThatCannotBeIsRefused) {
  stages_["kv"].data[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(import(), 3, AllOf(HasSubstr("kv: expected finite values"), HasSubstr("[0, 5]")));
  stages_["kv"].data[5] = 0;
  stages_["hidden_states"].data[7] = 1.0f + 0x1p-20f;
  expect_refused(import(), 3, HasSubstr("is no bf16 value"));
  stages_["hidden_states"].data[7] = 1;
  indices_[8 * 11] = 12;
  expect_refused(import(), 3, HasSubstr("beyond the row's own token"));
}

TEST_F(SpoiltRecording, OfMoreTokensThanTopKNeedsTheIndices) {
  indices_.clear();
  expect_refused(import(), 3,
                 AllOf(HasSubstr("attn_latent"), HasSubstr("topk_indices are needed")));
}

// Engines record none where every key is selected.
TEST_F(SpoiltRecording, OfALayerThatSharesIndicesNeedsNoneOfFewTokens) {
  ModelSizes sizes = synthetic_model("glm52:tiny", 1).sizes;
  sizes.index_topk = 16;
  std::vector<std::int32_t> every;
  for (int own = 0; own < kTokens; ++own)
    for (int j = 0; j < 16; ++j) every.push_back(j <= own ? j : -1);
  input_.shared_indices = IndexRows{every.data(), kTokens, 16};
  const LayerStages stages = attention_layer(sizes, layer_numerics("hf", DType::bf16, sizes),
                                             hash_layer_weights(sizes, 2, 1), input_);
  stages_ = {{"hidden_states", input_.hidden}, {"kv", stages.kv}, {"output", stages.output}};
  indices_.clear();
  const auto import_layer = [&](const Arguments& more) {
    Arguments arguments = {"golden",  "import", recording(), "--synthetic", "glm52:tiny",
                           "--layer", "2",      "--out",     golden()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlacheck(arguments);
  };
  expect_refused(
      import_layer({}), 3,
      AllOf(HasSubstr("layer 2 shares the indices of layer 1: expected its topk_indices"),
            HasSubstr("12 tokens are more than index_topk 8, got arrays")));
  const Outcome imported = import_layer({"--topk", "16"});
  EXPECT_EQ(imported.code, 0) << imported.out << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("2 PASS"));
  EXPECT_EQ(mlacheck({"golden", "check", golden()}).code, 0);
}

TEST_F(SpoiltRecording, OfHiddenStatesAloneOrNoneIsRefused) {
  const Matrix hidden = stages_["hidden_states"];
  stages_.erase("hidden_states");
  expect_refused(import(), 3,
                 AllOf(HasSubstr("has neither layer0.hidden_states nor hidden_states"),
                       HasSubstr("got arrays attn_latent, attn_output, "), HasSubstr(" more")));
  folder_.write("words", "1 2 3 4 5");
  expect_refused(mlacheck({"golden", "import", folder_ / "words", "--synthetic", "glm5:tiny",
                           "--layer", "0", "--out", golden()}),
                 3, HasSubstr("words: is of no format that is read: expected safetensors, HDF5"));
  stages_.clear();
  indices_.clear();
  stages_["hidden_states"] = hidden;
  expect_refused(import(), 3,
                 AllOf(HasSubstr("nothing to compare"), HasSubstr("got arrays hidden_states")));
  stages_["layer2.kv"] = stages_["layer14.kv"] = Matrix(1, 1);
  expect_refused(import(), 3, HasSubstr("expected stages of layer 0, got layers 2, 14"));
  stages_.erase("hidden_states");
  expect_refused(import(), 3,
                 HasSubstr("nor hidden_states: expected one of them, got layers 2, 14"));
}

}  // namespace
}  // namespace mlacheck::testing
