#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures/checkpoint/hash_checkpoint.h"
#include "fixtures/checkpoint/safetensors.h"
#include "tools/cli_testing.h"

// A small checkpoint to capture from, and to spoil.
namespace mlacheck::testing {

struct StoredTensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

// Layers 0 to 3 of glm52:tiny with values of the hash checkpoint; 3 shares the indices of 2.
class CheckpointCapture : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLayers = 4;

  CheckpointCapture() {
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
  static void write_tensors(const std::filesystem::path& path,
                            const std::vector<StoredTensor>& tensors) {
    std::vector<SafetensorsTensor> views;
    for (const StoredTensor& t : tensors) views.push_back({t.name, t.dtype, t.shape, t.bytes});
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
    std::vector<StoredTensor> shards[2];
    for (const StoredTensor& t : tensors_) {
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
  StoredTensor& tensor(std::int64_t layer, const std::string& name) {
    return *std::find_if(tensors_.begin(), tensors_.end(),
                         [&](const StoredTensor& t) { return t.name == tensor_name(layer, name); });
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
    EXPECT_THAT(outcome.code, ::testing::AnyOf(2, 3)) << outcome.out;
    EXPECT_THAT(outcome.err, said);
    EXPECT_FALSE(std::filesystem::exists(golden()));
  }
  Outcome check() { return mlacheck({"golden", "check", golden(), "--checkpoint", model()}); }

  std::string model() const { return folder_ / "model"; }
  std::string golden() const { return folder_ / "golden.h5"; }

  const ModelSizes sizes_ = model_sizes("glm52:tiny");
  std::vector<StoredTensor> tensors_;
  nlohmann::json config_;
  TemporaryFolder folder_;
};

}  // namespace mlacheck::testing
