// golden capture --checkpoint on a small checkpoint that the test makes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/golden_file.h"
#include "tools/cli_checkpoint_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Checkpoint : public CheckpointCapture {};

// ---- The good case ----

TEST_F(Checkpoint, IsCapturedAndChecked) {
  write();
  ASSERT_EQ(capture("0,1").code, 0);
  const Outcome passed = check();
  EXPECT_EQ(passed.code, 0) << passed.out << passed.err;
  EXPECT_THAT(passed.out,
              AllOf(HasSubstr("golden.h5 layer 0 bits"), HasSubstr("golden.h5 layer 1 oracle")));

  const Outcome skipped = mlacheck({"golden", "check", golden()});
  EXPECT_EQ(skipped.code, 77);
  EXPECT_THAT(skipped.out, AllOf(HasSubstr("SKIPPED"), HasSubstr("--checkpoint")));
}

TEST_F(Checkpoint, InShardsGivesTheSameGolden) {
  write();
  ASSERT_EQ(capture("1,2,3").code, 0);
  const std::string whole = read_file(golden());
  std::filesystem::remove(folder_ / "model/model.safetensors");
  write_sharded();
  ASSERT_EQ(capture("1,2,3").code, 0);
  EXPECT_EQ(read_file(golden()), whole);
  EXPECT_EQ(check().code, 0);
}

TEST_F(Checkpoint, ASharedLayerNeedsTheOneBeforeItAndItsOwnShardAlone) {
  write_sharded();
  std::filesystem::remove(folder_ / ("model/" + shard_name(0)));
  ASSERT_EQ(capture("3").code, 0);
  const Golden golden_file = read_golden(golden());
  EXPECT_TRUE(golden_file.datasets.contains("layer3/inputs/shared_indices"));
  EXPECT_FALSE(golden_file.datasets.contains("layer3/outputs/reference/index_scores"));
  EXPECT_EQ(check().code, 0);
}

TEST_F(Checkpoint, IsCapturedInEveryProfileAndNumerics) {
  write();
  for (const char* profile : {"hf", "vllm", "deepseek"})
    for (const char* numerics : {"fp32", "bf16"}) {
      ASSERT_EQ(capture("0", {"--profile", profile, "--numerics", numerics, "--topk", "2"}).code,
                0);
      EXPECT_EQ(check().code, 0) << profile << " " << numerics;
    }
}

TEST_F(Checkpoint, TakesStatesAndPositionsFromAFile) {
  write();
  const Matrix hidden = hash_hidden_states(6, sizes_.hidden_size, 9);
  const std::vector<std::int32_t> positions = {7, 8, 9, 20, 21, 2147483646};
  const std::vector<float> one_byte(1);
  const std::span<const std::byte> odd = std::as_bytes(std::span(one_byte)).first(1);
  // One byte, of another layer, before them: what follows is aligned to nothing.
  const std::vector<SafetensorsTensor> states = {
      {"layer7.hidden_states", DType::u8, {1}, odd},
      {"hidden_states", DType::f32, {6, sizes_.hidden_size}, std::as_bytes(std::span(hidden.data))},
      {"positions", DType::i32, {6}, std::as_bytes(std::span(positions))}};
  write_safetensors(folder_ / "states.safetensors", states);
  ASSERT_EQ(capture_inputs(folder_ / "states.safetensors").code, 0);
  const Golden golden_file = read_golden(golden());
  EXPECT_EQ(golden_file.dataset("layer0/inputs/positions").as<std::int64_t>(),
            std::vector<std::int64_t>(positions.begin(), positions.end()));
  EXPECT_EQ(golden_file.dataset("layer0/inputs/hidden_states").value(77),
            static_cast<double>(hidden.data[77]));
  EXPECT_EQ(check().code, 0);
}

// ---- A checkpoint that is not the golden's ----

TEST_F(Checkpoint, WithOneChangedWeightIsNamed) {
  write();
  ASSERT_EQ(capture("0,1").code, 0);
  tensor(1, "kv_b_proj.weight").bytes[100] ^= std::byte{1};
  write();
  const Outcome outcome = check();
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("model.layers.1.self_attn.kv_b_proj.weight"),
                                 HasSubstr("not the tensor that the golden was made from")));
  EXPECT_THAT(outcome.out, HasSubstr("layer 0 bits"));
}

}  // namespace
}  // namespace mlacheck::testing
