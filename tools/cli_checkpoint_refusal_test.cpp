// What golden capture --checkpoint says of spoilt checkpoints, inputs and options.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/cli_checkpoint_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SpoiltCheckpoint : public CheckpointCapture {};

// ---- Files that are not there, or damaged ----

TEST_F(SpoiltCheckpoint, WithoutItsFilesIsRefused) {
  expect_refused(capture("0"), HasSubstr("config.json"));
  write_config();
  expect_refused(capture("0"), HasSubstr("model.safetensors"));
  write();
  std::filesystem::resize_file(folder_ / "model/model.safetensors", 100'000);
  expect_refused(capture("0"), HasSubstr("model.safetensors"));
  folder_.write("model/config.json", "{");
  expect_refused(capture("0"), HasSubstr("config.json"));
}

TEST_F(SpoiltCheckpoint, WithAShardMissingFromTheIndexIsRefused) {
  write_sharded();
  nlohmann::json index =
      nlohmann::json::parse(read_file(folder_ / "model/model.safetensors.index.json"));
  std::erase_if(index["weight_map"].get_ref<nlohmann::json::object_t&>(),
                [](const auto& entry) { return entry.second == shard_name(0); });
  folder_.write("model/model.safetensors.index.json", index.dump());
  expect_refused(capture("2"), HasSubstr("model-00001-of-00002"));
}

TEST_F(SpoiltCheckpoint, WithATensorMissingFromTheIndexIsRefused) {
  write_sharded();
  const std::string name = tensor_name(2, "o_proj.weight");
  nlohmann::json index =
      nlohmann::json::parse(read_file(folder_ / "model/model.safetensors.index.json"));
  index["weight_map"].erase(name);
  folder_.write("model/model.safetensors.index.json", index.dump());
  expect_refused(capture("2"), HasSubstr(name));
}

TEST_F(SpoiltCheckpoint, WithAShardThatIsNotThereIsRefused) {
  write_sharded();
  std::filesystem::remove(folder_ / ("model/" + shard_name(1)));
  expect_refused(capture("2"), HasSubstr(shard_name(1)));
}

TEST_F(SpoiltCheckpoint, WithAMisshapenTensorIsRefused) {
  std::reverse(tensor(0, "q_b_proj.weight").shape.begin(),
               tensor(0, "q_b_proj.weight").shape.end());
  write();
  expect_refused(capture("0"), HasSubstr(tensor_name(0, "q_b_proj.weight")));
  EXPECT_EQ(capture("1").code, 0);
}

TEST_F(SpoiltCheckpoint, WithAnIntegerTensorIsRefused) {
  StoredTensor& norm = tensor(0, "kv_a_layernorm.weight");
  norm.dtype = DType::i32;
  norm.bytes.resize(norm.bytes.size() * 2);
  write();
  expect_refused(capture("0"),
                 AllOf(HasSubstr(tensor_name(0, "kv_a_layernorm.weight")), HasSubstr("I32")));
}

// ---- config.json ----

TEST_F(SpoiltCheckpoint, WithAnImpossibleConfigIsRefusedByItsKey) {
  const nlohmann::json good = config_;
  const auto with = [&](const char* key, const nlohmann::json& value) {
    config_ = good;
    config_[key] = value;
    write();
    return capture("0");
  };
  ASSERT_EQ(with("vocab_size", 1000).code, 0);  // nothing to do with the layer
  std::filesystem::remove(golden());
  expect_refused(with("sliding_window", 4096), HasSubstr("sliding_window"));
  expect_refused(with("num_experts", 8),
                 AllOf(HasSubstr("num_experts"), HasSubstr("n_routed_experts")));
  expect_refused(with("max_position_embeddings", 2147483648), HasSubstr("max_position_embeddings"));
  expect_refused(with("model_type", "llama"), AllOf(HasSubstr("model_type"), HasSubstr("llama")));
  expect_refused(with("hidden_size", -1), HasSubstr("hidden_size"));
  expect_refused(with("hidden_size", "192"), HasSubstr("hidden_size"));
  expect_refused(with("qk_head_dim", 7), HasSubstr("qk_head_dim"));
  expect_refused(with("indexer_types", {"full"}), HasSubstr("indexer_types"));
  expect_refused(with("num_attention_heads", 8), HasSubstr("q_b_proj"));
}

// ---- Options ----

TEST_F(SpoiltCheckpoint, WithImpossibleOptionsIsRefusedAsUsage) {
  write();
  const auto expect_usage = [&](const Outcome& outcome,
                                const ::testing::Matcher<std::string>& said) {
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    expect_refused(outcome, said);
  };
  expect_usage(capture("0", {"--profile", "sglang"}),
               AllOf(HasSubstr("sglang"), HasSubstr("hf, vllm, deepseek")));
  expect_usage(capture("4"), AllOf(HasSubstr("--layers 4"), HasSubstr("0 to 3")));
  expect_usage(capture("-1"), HasSubstr("-1"));
  expect_usage(capture("zero"), HasSubstr("zero"));
  for (const char* layers : {"", "0,", ",0", "0,,1"})
    expect_usage(capture(layers),
                 AnyOf(HasSubstr("--layers: expected numbers"), HasSubstr("needs --layers")));
  expect_usage(capture("0,0"), HasSubstr("layer0: twice"));
  for (const char* topk : {"-2", "202753"})
    expect_usage(capture("0", {"--topk", topk}), HasSubstr(std::string("--topk ") + topk));
  for (const char* inputs : {"hash:0:1", "hash:5", "hash:5:x", "hash:99999999:1"})
    expect_usage(capture_inputs(inputs), HasSubstr(std::string("--inputs ") + inputs));
}

// ---- Bad values: what the file holds, not how the program was called ----

TEST_F(SpoiltCheckpoint, WithAValueThatIsNotFiniteIsRefusedByFileAndTensor) {
  const auto expect_data_error = [&](const Outcome& outcome, const std::string& said) {
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    expect_refused(outcome, HasSubstr(said));
  };
  const auto with_nan = [](std::vector<float> values) {
    values[3] = std::nanf("");
    return values;
  };
  const std::string path = folder_ / "states.safetensors";
  const std::vector<float> states =
      with_nan(std::vector<float>(static_cast<std::size_t>(2 * sizes_.hidden_size)));
  const std::vector<float> good(states.size());
  const std::vector<std::int32_t> back = {3, 2};
  write();
  const auto capture_states = [&](const std::vector<float>& data,
                                  const std::vector<std::int32_t>& positions) {
    const std::vector<SafetensorsTensor> tensors = {
        {"hidden_states", DType::f32, {2, sizes_.hidden_size}, std::as_bytes(std::span(data))},
        {"positions", DType::i32, {2}, std::as_bytes(std::span(positions))}};
    write_safetensors(path, tensors);
    return capture_inputs(path);
  };
  expect_data_error(capture_states(states, {0, 1}),
                    path + ": hidden_states: expected finite values, got nan at [0, 3]");
  expect_data_error(capture_states(good, back), path + ": positions[1]: expected 4 to ");

  StoredTensor& weight = tensor(0, "q_b_proj.weight");
  ASSERT_EQ(weight.dtype, DType::bf16);
  weight.bytes[2] = weight.bytes[3] = std::byte{0x7f};  // element 1: 0x7f7f is finite
  weight.bytes[2] = std::byte{0xff};                    // 0x7fff is not
  write();
  expect_data_error(capture("0"), "model.safetensors: tensor " + tensor_name(0, "q_b_proj.weight") +
                                      ": expected finite values, got nan at [0, 1]");
}

// Each is in its own range, but the rotation is not in any.
TEST_F(SpoiltCheckpoint, WithAnImpossibleRotationIsRefusedByItsConfig) {
  config_["rope_parameters"] = {{"rope_type", "yarn"}, {"rope_theta", 1e6},
                                {"factor", 40},        {"mscale", 1e300},
                                {"mscale_all_dim", 1}, {"original_max_position_embeddings", 4096}};
  write();
  const Outcome outcome = capture("0");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  expect_refused(outcome, AllOf(HasSubstr("config.json: "), HasSubstr("--inputs hash:6:5")));
}

// ---- Inputs ----

TEST_F(SpoiltCheckpoint, WithImpossibleInputsIsRefusedByTheirName) {
  write();
  const std::string path = folder_ / "states.safetensors";
  expect_refused(capture_inputs(path), HasSubstr(path));

  const std::vector<float> data(static_cast<std::size_t>(2 * sizes_.hidden_size));
  const SafetensorsTensor hidden = {
      "hidden_states", DType::f32, {2, sizes_.hidden_size}, std::as_bytes(std::span(data))};
  const auto with = [&](std::vector<SafetensorsTensor> tensors) {
    write_safetensors(path, tensors);
    return capture_inputs(path);
  };
  expect_refused(with({{"states", hidden.dtype, hidden.shape, hidden.bytes}}),
                 AllOf(HasSubstr(path), HasSubstr("hidden_states")));
  expect_refused(with({{"hidden_states", DType::f32, {sizes_.hidden_size, 2}, hidden.bytes}}),
                 AllOf(HasSubstr("hidden_states"), HasSubstr("[tokens, 192]")));
  expect_refused(with({{"hidden_states", DType::i32, hidden.shape, hidden.bytes}}),
                 AllOf(HasSubstr("hidden_states"), HasSubstr("I32")));

  const std::vector<std::int64_t> far = {0, std::int64_t{1} << 31};
  expect_refused(with({hidden, {"positions", DType::i64, {2}, std::as_bytes(std::span(far))}}),
                 AllOf(HasSubstr("positions"), HasSubstr("I64")));
  const std::vector<std::int32_t> back = {3, 2};
  expect_refused(with({hidden, {"positions", DType::i32, {2}, std::as_bytes(std::span(back))}}),
                 HasSubstr("positions[1]"));
  const std::vector<std::int32_t> order = {3, 4};
  for (const char* name : {"position_ids", "layer.hidden_states", "layer0.states"})
    expect_refused(with({hidden, {name, DType::i32, {2}, std::as_bytes(std::span(order))}}),
                   AllOf(HasSubstr(path + ": " + name),
                         HasSubstr("expected hidden_states, layer<N>.hidden_states or positions")));
  expect_refused(with({{"hidden_states", DType::f32, {0, sizes_.hidden_size}, {}}}),
                 HasSubstr(path + ": hidden_states: expected a token or more"));
  const std::vector<std::int32_t> few = {3};
  expect_refused(with({hidden, {"positions", DType::i32, {1}, std::as_bytes(std::span(few))}}),
                 AllOf(HasSubstr("positions"), HasSubstr("[2]")));
}

}  // namespace
}  // namespace mlacheck::testing
