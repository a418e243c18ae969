// golden import: what an engine would have recorded, made by the reference itself, and spoilt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "fixtures/checkpoint/checkpoint_testing.h"
#include "fixtures/golden_file.h"
#include "fixtures/model/synthetic_model.h"
#include "reference/layer/attention_layer.h"
#include "reference/layer/rope.h"
#include "tools/cli_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kTokens = 12;

// An engine in bf16, profile hf, on a layer of glm5:tiny.
class Import : public ::testing::Test {
 protected:
  Import() {
    input_.hidden = hash_hidden_states(kTokens, sizes_.hidden_size, 3);
    for (std::int64_t i = 0; i < kTokens; ++i) input_.positions.push_back(i);
    const LayerStages stages = attention_layer(sizes_, layer_numerics("hf", DType::bf16, sizes_),
                                               hash_layer_weights(sizes_, 0, 1), input_);
    for (const StageView& view : views(stages))
      if (view.name != "topk_indices") {
        Matrix m(view.rows, view.cols);
        m.data.assign(view.values.begin(), view.values.end());
        stages_.emplace(view.name, std::move(m));
      }
    for (const char* ours : {"lse", "index_weights"}) stages_.erase(ours);
    stages_["hidden_states"] = input_.hidden;
    indices_ = stages.topk_indices;
    metadata_["engine"] = "the reference";
    metadata_["rope_order"] = "interleaved";
  }

  // f32; q with heads as an extent of their own.
  std::string recording() {
    std::vector<SafetensorsTensor> tensors;
    for (const auto& [name, m] : stages_) {
      std::vector<std::int64_t> shape = {m.rows, m.cols};
      if (name == "q") shape = {m.rows, sizes_.num_attention_heads, sizes_.qk_head_dim()};
      tensors.push_back({name, DType::f32, shape, std::as_bytes(std::span(m.data))});
    }
    if (!indices_.empty())
      tensors.push_back({"topk_indices",
                         DType::i32,
                         {kTokens, std::ssize(indices_) / kTokens},
                         std::as_bytes(std::span(indices_))});
    const std::string path = folder_ / "engine.safetensors";
    std::filesystem::remove(path);
    write_safetensors(path, tensors, metadata_);
    return path;
  }
  Outcome import(const Arguments& more = {}) {
    Arguments arguments = {"golden",  "import", recording(), "--synthetic", "glm5:tiny",
                           "--layer", "0",      "--out",     golden()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlacheck(arguments);
  }
  void expect_refused(const Outcome& outcome, int code,
                      const ::testing::Matcher<std::string>& said) {
    EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
    EXPECT_THAT(code == 1 ? outcome.out : outcome.err, said);
    EXPECT_FALSE(std::filesystem::exists(golden()));
  }
  // The rotated parts as transformers has them.
  static void deinterleave(Matrix& m, std::int64_t rope) {
    for (float* x = m.data.data(); x != m.data.data() + m.data.size(); x += rope) {
      const std::vector<float> old(x, x + rope);
      for (std::int64_t i = 0; i < rope; ++i)
        x[i] = old[static_cast<std::size_t>(i < rope / 2 ? 2 * i : 2 * (i - rope / 2) + 1)];
    }
  }
  std::string golden() const { return folder_ / "golden.h5"; }

  const ModelSizes sizes_ = model_sizes("glm5:tiny");
  LayerInput input_;
  std::map<std::string, Matrix> stages_;
  std::vector<std::int32_t> indices_;
  std::map<std::string, std::string> metadata_;
  TemporaryFolder folder_;
};

// ---- The good case ----

TEST_F(Import, IsJudgedStageByStageAndItsGoldenIsChecked) {
  const Outcome imported = import({"--json", folder_ / "report.json"});
  ASSERT_EQ(imported.code, 0) << imported.out << imported.err;
  const auto found = statuses(folder_ / "report.json");
  EXPECT_EQ(found.size(), 17u) << imported.out;  // 16 stages and topk_indices
  EXPECT_EQ(found.at("engine.safetensors layer 0 k_pe"), "PASS");
  const Outcome checked = mlacheck({"golden", "check", golden()});
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
  EXPECT_THAT(checked.out, AllOf(HasSubstr("layer 0 bits"), HasSubstr("layer 0 engine")));
  EXPECT_EQ(read_golden(golden()).text("engine"), "the reference");
}

TEST_F(Import, ATopKThatNoMemoryHoldsIsRefused) {
  const Outcome beyond = import({"--topk", "4611686018427387904"});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.err,
              HasSubstr("--topk 4611686018427387904: expected 1 to 202752, the model's max"));
}

// Its scores would take 40 GB; the file takes none, as nothing of it was written.
TEST_F(Import, OfMoreTokensThanCanBeScoredIsRefusedUnread) {
  constexpr std::int64_t kMany = 100000;
  const std::string path = folder_ / "many.safetensors";
  const std::int64_t bytes = kMany * sizes_.hidden_size * 2, kv = kMany * sizes_.kv_lora_rank * 2;
  const std::string header = nlohmann::json{
      {"hidden_states",
       {{"dtype", "BF16"}, {"shape", {kMany, sizes_.hidden_size}}, {"data_offsets", {0, bytes}}}},
      {"kv",
       {{"dtype", "BF16"},
        {"shape", {kMany, sizes_.kv_lora_rank}},
        {"data_offsets",
         {bytes, bytes + kv}}}}}.dump();
  const auto length = static_cast<std::uint64_t>(header.size());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(&length), sizeof length)
      .write(header.data(), std::ssize(header));
  std::filesystem::resize_file(
      path, sizeof length + header.size() + static_cast<std::uintmax_t>(bytes + kv));
  const Outcome outcome = mlacheck(
      {"golden", "import", path, "--synthetic", "glm5:tiny", "--layer", "0", "--out", golden()});
  expect_refused(outcome, 3,
                 HasSubstr("many.safetensors: hidden_states: 100000 queries of 100000 keys: "
                           "expected at most 1073741824 index scores in all (4 GiB)"));
}

TEST_F(Import, TakesTheOrderOfTransformersWhereItIsDeclared) {
  ASSERT_EQ(import().code, 0);
  const Dataset in_place = read_golden(golden()).dataset("outputs/engine/k_pe");
  for (const char* name : {"k_pe", "q_pe"}) deinterleave(stages_[name], sizes_.qk_rope_head_dim);
  metadata_["rope_order"] = "deinterleaved";
  const Outcome other = import();
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, AllOf(HasSubstr("holds another golden"), HasSubstr("rope_order")));
  std::filesystem::remove(golden());
  ASSERT_EQ(import().code, 0);
  EXPECT_EQ(read_golden(golden()).dataset("outputs/engine/k_pe"), in_place);
}

TEST_F(Import, TakesALatentCacheAndAnyOrderOfIndices) {
  Matrix cache(kTokens, sizes_.latent_head_dim());
  for (std::int64_t r = 0; r < kTokens; ++r) {
    std::copy_n(stages_["kv"].row(r), sizes_.kv_lora_rank, cache.row(r));
    std::copy_n(stages_["k_pe"].row(r), sizes_.qk_rope_head_dim,
                cache.row(r) + sizes_.kv_lora_rank);
  }
  stages_["kv_cache"] = cache;
  std::reverse(indices_.begin() + 8 * 11, indices_.end());
  indices_[1] = 9;  // row 0: a future one in place of an absent one, as transformers fills rows
  const Outcome outcome = import();
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("kv_cache"));
}

// Recorded by tools/hooks/capture_hooks_transformers.py.
TEST_F(Import, TakesWhatTransformersRecorded) {
  const Outcome outcome = mlacheck(
      {"golden", "import",
       MLACHECK_SOURCE_DIR "/fixtures/activations/foreign/transformers_glm5_tiny.safetensors",
       "--synthetic", "glm5:tiny", "--layer", "2", "--out", golden()});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("15 PASS"));
  EXPECT_EQ(mlacheck({"golden", "check", golden()}).code, 0);
}

// What --synthetic names is one model, whatever the command.
TEST_F(Import, OfASyntheticModelIsOfItsFiles) {
  ASSERT_EQ(import().code, 0);
  std::filesystem::rename(golden(), folder_ / "a.h5");
  const std::string model = folder_ / "model";
  ASSERT_EQ(mlacheck({"golden", "synthesize", "glm5:tiny", "--out", model}).code, 0);
  ASSERT_EQ(mlacheck({"golden", "import", recording(), "--checkpoint", model, "--layer", "0",
                      "--out", golden()})
                .code,
            0);
  const Golden a = read_golden(folder_ / "a.h5"), b = read_golden(golden());
  EXPECT_EQ(a.datasets, b.datasets);
  EXPECT_EQ(nlohmann::json::parse(a.text("config_json")),
            nlohmann::json::parse(b.text("config_json")));
  std::filesystem::remove(golden());
  const Outcome absent = mlacheck({"golden", "import", recording(), "--synthetic", "glm5:tiny",
                                   "--layer", "3", "--out", golden()});
  expect_refused(absent, 2, HasSubstr("--layer 3: the model has layers 0 to 2"));
}

// ---- What is wrong is named ----

TEST_F(Import, OfAWrongOrderIsNamedByStage) {
  for (const char* name : {"k_pe", "q_pe"}) deinterleave(stages_[name], sizes_.qk_rope_head_dim);
  expect_refused(import(), 1,
                 AllOf(HasSubstr("k_pe"), HasSubstr("it fits as rope_order deinterleaved"),
                       HasSubstr("2 FAIL")));
  stages_.erase("k_pe");
  stages_.erase("q_pe");
  EXPECT_EQ(import().code, 0);
}

TEST_F(Import, OfInPlaceElementsDeclaredDeinterleavedIsNamed) {
  metadata_["rope_order"] = "deinterleaved";
  expect_refused(import(), 1,
                 AllOf(HasSubstr("q_pe"), HasSubstr("it fits as rope_order interleaved")));
}

TEST_F(Import, OfAnotherPairingOfTheRotationIsNamed) {
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

TEST_F(Import, WithAWrongStageFailsThere) {
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
TEST_F(Import, WithAWrongSelectionFailsThere) {
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

TEST_F(Import, OfAnotherRotationOrNormIsFound) {
  expect_refused(import({"--profile", "deepseek"}), 1, HasSubstr("FAIL"));
  for (float& x : stages_["q_resid"].data) x = -x;
  expect_refused(import(), 1, HasSubstr("q_resid"));
}

// ---- Files that say too little, or too much ----

TEST_F(Import, WithoutItsOrderIsRefused) {
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

TEST_F(Import, WithImpossibleArraysIsRefusedByTheirName) {
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

TEST_F(Import, WithValuesThatCannotBeIsRefused) {
  stages_["kv"].data[5] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(import(), 3, AllOf(HasSubstr("kv: expected finite values"), HasSubstr("[0, 5]")));
  stages_["kv"].data[5] = 0;
  stages_["hidden_states"].data[7] = 1.0f + 0x1p-20f;
  expect_refused(import(), 3, HasSubstr("is no bf16 value"));
  stages_["hidden_states"].data[7] = 1;
  indices_[8 * 11] = 12;
  expect_refused(import(), 3, HasSubstr("beyond the row's own token"));
}

TEST_F(Import, OfMoreTokensThanTopKNeedsTheIndices) {
  indices_.clear();
  expect_refused(import(), 3,
                 AllOf(HasSubstr("attn_latent"), HasSubstr("topk_indices are needed")));
}

// Engines record none where every key is selected.
TEST_F(Import, OfALayerThatSharesIndicesNeedsNoneOfFewTokens) {
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

TEST_F(Import, OfHiddenStatesAloneOrNoneIsRefused) {
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
