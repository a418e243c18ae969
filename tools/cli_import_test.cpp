// golden import of what an engine would have recorded.

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

class Import : public EngineRecording {};

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

}  // namespace
}  // namespace mlacheck::testing
