#include "reference/layer/numerics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <stdexcept>

namespace mlacheck {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr DType kBoth[] = {DType::f32, DType::bf16};

TEST(Profiles, AreValidAndDistinct) {
  std::set<std::string> texts;
  const ModelSizes sizes = model_sizes("glm5");
  for (const std::string& profile : profile_names())
    for (const DType activations : kBoth) {
      const LayerNumerics numerics = layer_numerics(profile, activations, sizes);
      EXPECT_NO_THROW(validate(numerics, sizes)) << profile;
      EXPECT_EQ(numerics.activations, activations);
      texts.insert(to_string(numerics));
    }
  EXPECT_EQ(texts.size(), 6u);
}

TEST(Profiles, HoldWhatTheImplementationsDo) {
  const ModelSizes glm = model_sizes("glm5");
  const ModelSizes deepseek = model_sizes("dsv32");
  const LayerNumerics hf = layer_numerics("hf", DType::bf16, glm);
  EXPECT_EQ(hf.eps_lora, 1e-6);
  EXPECT_EQ(hf.rms_norm_roundings, 2);
  EXPECT_EQ(hf.rope_roundings, 3);
  EXPECT_EQ(hf.rope_table, DType::bf16);
  EXPECT_EQ(hf.index_quantisation, IndexQuantisation::none);
  EXPECT_EQ(hf.index_weights, DType::f32);

  const LayerNumerics vllm = layer_numerics("vllm", DType::bf16, glm);
  EXPECT_EQ(vllm.eps_lora, 1e-5);
  EXPECT_EQ(vllm.rope_table, DType::bf16);
  EXPECT_EQ(vllm.index_weights, DType::bf16);
  EXPECT_EQ(vllm.kv_writer, kv_record_656::Writer::arb);
  EXPECT_EQ(layer_numerics("vllm", DType::bf16, deepseek).eps_lora, 1e-6);
  EXPECT_EQ(layer_numerics("vllm", DType::bf16, deepseek).rope_table, DType::f32);

  const LayerNumerics reference = layer_numerics("deepseek", DType::bf16, deepseek);
  EXPECT_TRUE(reference.index_hadamard);
  EXPECT_EQ(reference.index_quantisation, IndexQuantisation::p2);
  EXPECT_EQ(reference.kv_writer, kv_record_656::Writer::p2_floor_on_amax);
}

TEST(Profiles, RefuseUnknownNames) {
  const ModelSizes sizes = model_sizes("glm5");
  EXPECT_THAT([&] { layer_numerics("sglang", DType::f32, sizes); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("unknown profile 'sglang'")));
  EXPECT_THAT([&] { layer_numerics("hf", DType::f16, sizes); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("activations")));
}

TEST(Text, ReadsBackAsTheSameNumerics) {
  for (const std::string& model : model_names())
    for (const std::string& profile : profile_names())
      for (const DType activations : kBoth) {
        const LayerNumerics numerics = layer_numerics(profile, activations, model_sizes(model));
        EXPECT_EQ(parse_layer_numerics(to_string(numerics)), numerics) << to_string(numerics);
      }
  LayerNumerics odd;
  odd.eps_lora = 0.1 + 0.2;
  odd.index_quantisation = IndexQuantisation::arb;
  odd.index_reduction = HeadReduction::sequential;
  odd.kv_writer = kv_record_656::Writer::p2_floor_on_scale;
  odd.kv_reader = kv_record_656::Reader::e8m0_scale;
  EXPECT_EQ(parse_layer_numerics(to_string(odd)), odd);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Text, RefusesWhatIsNotExactlyTheFields) {
  const std::string text = to_string(LayerNumerics{});
  const auto expect_refused = [](const std::string& bad, const char* field) {
    EXPECT_THAT([&] { parse_layer_numerics(bad); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(field)))
        << bad;
  };
  expect_refused("", "activations");
  expect_refused(text + ",colour=red", "colour");
  expect_refused(text + ",eps_lora=1e-06", "eps_lora");
  expect_refused(replaced(text, "eps_knorm=1e-06,", ""), "eps_knorm");
  expect_refused(replaced(text, "eps_knorm=1e-06", "eps_knorm=1e-06x"), "eps_knorm");
  expect_refused(replaced(text, "eps_knorm=1e-06", "eps_knorm"), "eps_knorm");
  expect_refused(replaced(text, "activations=f32", "activations=f16"), "activations");
  expect_refused(replaced(text, "kv_reader=fp32_product", "kv_reader="), "kv_reader");
}

TEST(Validate, NamesTheFieldOfEveryContradiction) {
  struct Contradiction {
    const char* field;
    std::function<void(LayerNumerics&, ModelSizes&)> make;
  };
  using N = LayerNumerics;
  using S = ModelSizes;
  const std::vector<Contradiction> contradictions = {
      {"rms_norm_roundings", [](N& n, S&) { n.rms_norm_roundings = 0; }},
      {"rms_norm_roundings", [](N& n, S&) { n.activations = DType::f32; }},
      {"rope_roundings", [](N& n, S&) { n.rope_roundings = 2; }},
      {"rope_table", [](N& n, S&) { n.rope_table = DType::f16; }},
      {"index_weights", [](N& n, S&) { n.index_weights = DType::e4m3; }},
      {"softmax_weights", [](N& n, S&) { n.softmax_weights = DType::f16; }},
      {"eps_lora", [](N& n, S&) { n.eps_lora = -1; }},
      {"eps_knorm", [](N& n, S&) { n.eps_knorm = 1; }},
      {"index_q_eps", [](N& n, S&) { n.index_q_eps = 0; }},
      {"index_k_eps", [](N& n, S&) { n.index_k_eps = 0; }},
      {"index_hadamard", [](N&, S& s) { s.index_head_dim = 64; }},
      {"kv_storage", [](N&, S& s) { s.kv_lora_rank = 256; }},
  };
  for (const Contradiction& contradiction : contradictions) {
    ModelSizes sizes = model_sizes("dsv32");
    LayerNumerics numerics = layer_numerics("deepseek", DType::bf16, sizes);
    contradiction.make(numerics, sizes);
    EXPECT_THAT([&] { validate(numerics, sizes); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(contradiction.field)));
  }
}

}  // namespace
}  // namespace mlacheck
