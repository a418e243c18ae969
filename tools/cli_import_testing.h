#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fixtures/checkpoint/checkpoint_testing.h"
#include "reference/layer/attention_layer.h"
#include "tools/cli_testing.h"

// What an engine would have recorded, made by the reference itself.
namespace mlacheck::testing {

// An engine in bf16, profile hf, on a layer of glm5:tiny.
class EngineRecording : public ::testing::Test {
 protected:
  static constexpr std::int64_t kTokens = 12;

  EngineRecording() {
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

}  // namespace mlacheck::testing
