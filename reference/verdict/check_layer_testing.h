#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reference/layer/layer_testing.h"
#include "reference/layer/rope.h"
#include "reference/operators/size.h"
#include "reference/verdict/check_layer.h"

// Recorded runs of small layers for the tests of check_layer to spoil; no part of the library.
namespace mlacheck::testing {

inline constexpr std::int64_t kRows = 12;

using detail::size;

// The tiny model with what need not be the record's or the Hadamard transform's size made smaller.
inline ModelSizes small_sizes(const std::string& model) {
  ModelSizes sizes = model_sizes(model);
  sizes.hidden_size = 64;
  sizes.q_lora_rank = 32;
  sizes.num_attention_heads = 2;
  sizes.qk_nope_head_dim = 16;
  sizes.v_head_dim = 24;
  sizes.index_n_heads = 3;
  sizes.index_topk = 5;
  return sizes;
}

struct Setting {
  std::string model = "glm5:tiny";
  std::string profile = "hf";
  DType activations = DType::bf16;
  bool full = true;
  std::int64_t first_query_row = 0;
  float scale = 1;  // of the hidden states
};

// A layer and what the reference recorded of it, for a test to spoil.
struct RecordedRun {
  explicit RecordedRun(const Setting& s)
      : sizes(small_sizes(s.model)),
        numerics(layer_numerics(s.profile, s.activations, sizes)),
        weights(random_weights(sizes, s.full, 7)),
        input(random_input(sizes, kRows, 3, s.scale)) {
    input.first_query_row = s.first_query_row;
    if (!s.full) {
      for (std::int64_t r = s.first_query_row; r < kRows; ++r)
        for (std::int64_t j = 0; j < sizes.index_topk; ++j)
          given.push_back(static_cast<std::int32_t>(j <= r ? r - j : -1));
      input.shared_indices = {given.data(), kRows - s.first_query_row, sizes.index_topk};
    }
    stages = attention_layer(sizes, numerics, weights, input);
  }

  std::vector<Finding> findings() const {
    return check_layer(sizes, numerics, weights, input, stages);
  }
  RopeTable table() const {
    return rope_table(sizes.rope, sizes.qk_rope_head_dim, input.positions, numerics.rope_table);
  }

  ModelSizes sizes;
  LayerNumerics numerics;
  LayerWeights weights;
  LayerInput input;
  std::vector<std::int32_t> given;
  LayerStages stages;
};

inline std::vector<std::string> names_of(const LayerStages& stages) {
  std::vector<std::string> names;
  for (const StageView& stage : views(stages)) names.push_back("layer." + std::string(stage.name));
  return names;
}

class CheckLayer : public ::testing::Test {
 protected:
  // Layers this small keep one thread busy, no more.
  static void SetUpTestSuite() { omp_set_num_threads(1); }
};

using Member = Matrix LayerStages::*;
inline const std::vector<std::pair<std::string, Member>> kMatrices = {
    {"q_a", &LayerStages::q_a},
    {"q_resid", &LayerStages::q_resid},
    {"kv_a", &LayerStages::kv_a},
    {"kv", &LayerStages::kv},
    {"k_pe", &LayerStages::k_pe},
    {"q", &LayerStages::q},
    {"q_latent", &LayerStages::q_latent},
    {"q_pe", &LayerStages::q_pe},
    {"index_q", &LayerStages::index_q},
    {"index_k_proj", &LayerStages::index_k_proj},
    {"index_k", &LayerStages::index_k},
    {"index_weights_raw", &LayerStages::index_weights_raw},
    {"index_weights", &LayerStages::index_weights},
    {"index_scores", &LayerStages::index_scores},
    {"attn_latent", &LayerStages::attn_latent},
    {"lse", &LayerStages::lse},
    {"attn_output", &LayerStages::attn_output},
    {"output", &LayerStages::output}};

// Which stages are computed from each: judged from its spoiled record, they disagree with it too.
inline std::set<std::string> read_by(const std::string& stage) {
  static const std::map<std::string, std::set<std::string>> kReaders = {
      {"q_a", {"q_resid"}},
      {"q_resid", {"q", "index_q"}},
      {"kv_a", {"kv", "k_pe"}},
      {"kv", {"attn_latent", "lse"}},
      {"k_pe", {"attn_latent", "lse"}},
      {"q", {"q_latent", "q_pe"}},
      {"q_latent", {"attn_latent", "lse"}},
      {"q_pe", {"attn_latent", "lse"}},
      {"index_q", {"index_weights", "index_scores"}},  // the weights hold the query's scale
      {"index_k_proj", {"index_k"}},
      {"index_k", {"index_scores"}},
      {"index_weights_raw", {"index_weights"}},
      {"index_weights", {"index_scores"}},
      {"index_scores", {"topk_indices"}},
      {"topk_indices", {"attn_latent", "lse"}},
      {"attn_latent", {"attn_output"}},
      {"lse", {}},
      {"attn_output", {"output"}},
      {"output", {}}};
  return kReaders.at(stage);
}

// The spoiled stage fails; no other does but those that read it.
inline void expect_flagged(const RecordedRun& run, const std::string& stage) {
  std::set<std::string> flagged;
  for (const Finding& finding : run.findings())
    if (finding.status != Status::pass) {
      EXPECT_EQ(finding.status, Status::fail) << to_string(finding);
      flagged.insert(finding.stage.substr(6));
    }
  EXPECT_TRUE(flagged.contains(stage)) << stage << " passes";
  flagged.erase(stage);
  for (const std::string& reader : read_by(stage)) flagged.erase(reader);
  EXPECT_THAT(flagged, ::testing::IsEmpty()) << "with " << stage << " spoiled";
}

// Every run that the mutations below are tried on.
inline void for_each_run(const std::function<void(RecordedRun&)>& test) {
  for (const char* profile : {"hf", "vllm", "deepseek"})
    for (const DType activations : {DType::f32, DType::bf16})
      for (const std::int64_t first : {0, 5}) {
        SCOPED_TRACE(std::string(profile) + " " + std::string(name_of(activations)) + " from " +
                     std::to_string(first));
        RecordedRun run({"glm5:tiny", profile, activations, true, first});
        test(run);
      }
}

}  // namespace mlacheck::testing
