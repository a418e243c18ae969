// golden capture --checkpoint on a small checkpoint that the test makes, and on spoiled ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fixtures/checkpoint/hash_checkpoint.h"
#include "fixtures/checkpoint/safetensors.h"
#include "fixtures/golden_file.h"
#include "tools/cli_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Tensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

// Layers 0 to 3 of glm52:tiny with values of the hash checkpoint; 3 shares the indices of 2.
class Checkpoint : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLayers = 4;

  Checkpoint() {
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const LayerWeights weights = hash_layer_weights(sizes_, layer, 5);
      const bool full = is_full_index_layer(sizes_, layer);
      for (const ExpectedTensor& tensor : expected_tensors(sizes_, full)) {
        const Weight& weight = weights.*tensor.member;
        const auto* data = static_cast<const std::byte*>(weight.data);
        tensors_.push_back({tensor_name(layer, tensor.name),
                            weight.dtype,
                            tensor.shape,
                            {data, data + weight.rows * weight.cols * 2}});
      }
    }
    config_ = {{"model_type", "glm_moe_dsa"},
               {"hidden_size", sizes_.hidden_size},
               {"num_hidden_layers", kLayers},
               {"num_attention_heads", sizes_.num_attention_heads},
               {"q_lora_rank", sizes_.q_lora_rank},
               {"qk_nope_head_dim", sizes_.qk_nope_head_dim},
               {"v_head_dim", sizes_.v_head_dim},
               {"index_n_heads", sizes_.index_n_heads},
               {"index_topk", 3},
               {"indexer_types", {"full", "full", "full", "shared"}},
               {"n_routed_experts", 8}};
    std::filesystem::create_directory(folder_ / "model");
  }

  void write_config() { folder_.write("model/config.json", config_.dump(2)); }
  static void write_tensors(const std::filesystem::path& path, const std::vector<Tensor>& tensors) {
    std::vector<SafetensorsTensor> views;
    for (const Tensor& t : tensors) views.push_back({t.name, t.dtype, t.shape, t.bytes});
    write_safetensors(path, views);
  }
  void write() {
    write_config();
    write_tensors(folder_ / "model/model.safetensors", tensors_);
  }
  // Layers 0 and 1 in one shard, the others in another.
  void write_sharded() {
    write_config();
    nlohmann::json map;
    std::vector<Tensor> shards[2];
    for (const Tensor& t : tensors_) {
      const std::size_t shard = t.name < tensor_name(2, "") ? 0 : 1;
      map[t.name] = shard_name(shard);
      shards[shard].push_back(t);
    }
    for (const std::size_t shard : {0, 1})
      write_tensors(folder_ / ("model/" + shard_name(shard)), shards[shard]);
    folder_.write("model/model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  }
  static std::string shard_name(std::size_t shard) {
    return "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
  }
  Tensor& tensor(std::int64_t layer, const std::string& name) {
    return *std::find_if(tensors_.begin(), tensors_.end(),
                         [&](const Tensor& t) { return t.name == tensor_name(layer, name); });
  }

  Outcome capture(const std::string& layers, const Arguments& more = {}) {
    std::filesystem::remove(golden());
    Arguments arguments = {"golden", "capture",  "--checkpoint", model(), "--layers",
                           layers,   "--inputs", "hash:6:5",     "--out", golden()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlacheck(arguments);
  }
  Outcome capture_inputs(const std::string& inputs) {
    std::filesystem::remove(golden());
    return mlacheck({"golden", "capture", "--checkpoint", model(), "--layers", "0", "--inputs",
                     inputs, "--out", golden()});
  }
  // The capture ends with one of these codes, says this, and leaves no file.
  void expect_refused(const Outcome& outcome, const ::testing::Matcher<std::string>& said) {
    EXPECT_THAT(outcome.code, AnyOf(2, 3)) << outcome.out;
    EXPECT_THAT(outcome.err, said);
    EXPECT_FALSE(std::filesystem::exists(golden()));
  }
  Outcome check() { return mlacheck({"golden", "check", golden(), "--checkpoint", model()}); }

  std::string model() const { return folder_ / "model"; }
  std::string golden() const { return folder_ / "golden.h5"; }

  const ModelSizes sizes_ = model_sizes("glm52:tiny");
  std::vector<Tensor> tensors_;
  nlohmann::json config_;
  TemporaryFolder folder_;
};

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

// ---- Files that are not there, or damaged ----

TEST_F(Checkpoint, WithoutItsFilesIsRefused) {
  expect_refused(capture("0"), HasSubstr("config.json"));
  write_config();
  expect_refused(capture("0"), HasSubstr("model.safetensors"));
  write();
  std::filesystem::resize_file(folder_ / "model/model.safetensors", 100'000);
  expect_refused(capture("0"), HasSubstr("model.safetensors"));
  folder_.write("model/config.json", "{");
  expect_refused(capture("0"), HasSubstr("config.json"));
}

TEST_F(Checkpoint, WithAShardMissingFromTheIndexIsRefused) {
  write_sharded();
  nlohmann::json index =
      nlohmann::json::parse(read_file(folder_ / "model/model.safetensors.index.json"));
  std::erase_if(index["weight_map"].get_ref<nlohmann::json::object_t&>(),
                [](const auto& entry) { return entry.second == shard_name(0); });
  folder_.write("model/model.safetensors.index.json", index.dump());
  expect_refused(capture("2"), HasSubstr("model-00001-of-00002"));
}

TEST_F(Checkpoint, WithATensorMissingFromTheIndexIsRefused) {
  write_sharded();
  const std::string name = tensor_name(2, "o_proj.weight");
  nlohmann::json index =
      nlohmann::json::parse(read_file(folder_ / "model/model.safetensors.index.json"));
  index["weight_map"].erase(name);
  folder_.write("model/model.safetensors.index.json", index.dump());
  expect_refused(capture("2"), HasSubstr(name));
}

TEST_F(Checkpoint, WithAShardThatIsNotThereIsRefused) {
  write_sharded();
  std::filesystem::remove(folder_ / ("model/" + shard_name(1)));
  expect_refused(capture("2"), HasSubstr(shard_name(1)));
}

TEST_F(Checkpoint, WithAMisshapenTensorIsRefused) {
  std::reverse(tensor(0, "q_b_proj.weight").shape.begin(),
               tensor(0, "q_b_proj.weight").shape.end());
  write();
  expect_refused(capture("0"), HasSubstr(tensor_name(0, "q_b_proj.weight")));
  EXPECT_EQ(capture("1").code, 0);
}

TEST_F(Checkpoint, WithAnIntegerTensorIsRefused) {
  Tensor& norm = tensor(0, "kv_a_layernorm.weight");
  norm.dtype = DType::i32;
  norm.bytes.resize(norm.bytes.size() * 2);
  write();
  expect_refused(capture("0"),
                 AllOf(HasSubstr(tensor_name(0, "kv_a_layernorm.weight")), HasSubstr("I32")));
}

// ---- config.json ----

TEST_F(Checkpoint, WithAnImpossibleConfigIsRefusedByItsKey) {
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

TEST_F(Checkpoint, WithImpossibleOptionsIsRefusedAsUsage) {
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
  expect_usage(capture("0", {"--topk", "-2"}), HasSubstr("topk"));
  for (const char* inputs : {"hash:0:1", "hash:5", "hash:5:x", "hash:99999999:1"})
    expect_usage(capture_inputs(inputs), HasSubstr(std::string("--inputs ") + inputs));
}

// ---- Bad values: what the file holds, not how the program was called ----

TEST_F(Checkpoint, WithAValueThatIsNotFiniteIsRefusedByFileAndTensor) {
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

  Tensor& weight = tensor(0, "q_b_proj.weight");
  ASSERT_EQ(weight.dtype, DType::bf16);
  weight.bytes[2] = weight.bytes[3] = std::byte{0x7f};  // element 1: 0x7f7f is finite
  weight.bytes[2] = std::byte{0xff};                    // 0x7fff is not
  write();
  expect_data_error(capture("0"), "model.safetensors: tensor " + tensor_name(0, "q_b_proj.weight") +
                                      ": expected finite values, got nan at [0, 1]");
}

// Each is in its own range, but the rotation is not in any.
TEST_F(Checkpoint, WithAnImpossibleRotationIsRefusedByItsConfig) {
  config_["rope_parameters"] = {{"rope_type", "yarn"}, {"rope_theta", 1e6},
                                {"factor", 40},        {"mscale", 1e300},
                                {"mscale_all_dim", 1}, {"original_max_position_embeddings", 4096}};
  write();
  const Outcome outcome = capture("0");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  expect_refused(outcome, AllOf(HasSubstr("config.json: "), HasSubstr("--inputs hash:6:5")));
}

// ---- Inputs ----

TEST_F(Checkpoint, WithImpossibleInputsIsRefusedByTheirName) {
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
