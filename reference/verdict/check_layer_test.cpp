#include "reference/verdict/check_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "reference/verdict/check_layer_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ---- Clean runs ----

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* model : {"glm5:tiny", "dsv32:tiny"})
    for (const char* profile : {"hf", "vllm", "deepseek"})
      for (const DType activations : {DType::f32, DType::bf16})
        for (const bool full : {true, false})
          for (const std::int64_t first : {0, 5})
            all.push_back({model, profile, activations, full, first});
  return all;
}

TEST_F(CheckLayer, ACleanRunPassesAtEveryStage) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.model + " " + s.profile + " " + std::string(name_of(s.activations)) +
                 (s.full ? " full" : " shared") + " from " + std::to_string(s.first_query_row));
    const RecordedRun run(s);
    std::vector<std::string> names;
    for (const Finding& finding : run.findings()) {
      EXPECT_EQ(finding.status, Status::pass) << to_string(finding);
      EXPECT_GT(finding.elements, 0) << finding.stage;
      names.push_back(finding.stage);
    }
    EXPECT_THAT(names, ElementsAreArray(names_of(run.stages)));
  }
}

TEST_F(CheckLayer, WeightsThatAreMadeWhenTheyAreReadAreJudgedAlike) {
  RecordedRun run({});
  const std::vector<Finding> findings = run.findings();
  for (const ExpectedTensor& tensor : expected_tensors(run.sizes, true))
    run.weights.*tensor.member = testing::read_weight(run.weights.*tensor.member);
  const std::vector<Finding> again = run.findings();
  ASSERT_EQ(again.size(), findings.size());
  for (std::size_t i = 0; i < findings.size(); ++i)
    EXPECT_EQ(to_string(again[i]), to_string(findings[i]));
}

TEST_F(CheckLayer, ARunOnForcedIndicesPasses) {
  RecordedRun run({});
  const std::vector<std::int32_t> firsts(size(kRows), 0);
  run.input.forced_indices = IndexRows{firsts.data(), kRows, 1};
  run.stages = attention_layer(run.sizes, run.numerics, run.weights, run.input);
  for (const Finding& finding : run.findings())
    EXPECT_EQ(finding.status, Status::pass) << to_string(finding);

  run.input.forced_indices.reset();  // judged as if it had attended to what it selected
  EXPECT_EQ(run.findings()[size(std::ssize(run.findings()) - 4)].status, Status::fail);
}

// ---- One stage spoiled ----

// Spoils one matrix after the other, each time in a run that is clean otherwise.
void spoil_each(const std::function<void(Matrix&)>& spoil) {
  for_each_run([&](RecordedRun& run) {
    for (const auto& [name, member] : kMatrices) {
      const Matrix clean = run.stages.*member;
      spoil(run.stages.*member);
      expect_flagged(run, name);
      run.stages.*member = clean;
    }
  });
}

TEST_F(CheckLayer, SeesARowThatIsScaledByASixtyFourth) {
  spoil_each([](Matrix& m) {
    for (std::int64_t c = 0; c < m.cols; ++c) m.row(m.rows - 1)[c] *= 1 + 0x1p-6f;
  });
}

TEST_F(CheckLayer, SeesANan) {
  spoil_each([](Matrix& m) { m.data[m.data.size() / 2] = kNan; });
}

TEST_F(CheckLayer, SeesAStageThatWasNotWritten) {
  spoil_each([](Matrix& m) { std::fill(m.data.begin(), m.data.end(), 0.0f); });
}

TEST_F(CheckLayer, SeesAHeadOfZeros) {
  for_each_run([](RecordedRun& run) {
    for (const auto& [name, member] : kMatrices) {
      const bool attention = name == "q" || name == "q_latent" || name == "q_pe" ||
                             name == "attn_latent" || name == "attn_output" || name == "lse";
      const bool index = name.starts_with("index_q") || name.starts_with("index_weights");
      if (!attention && !index) continue;
      Matrix& m = run.stages.*member;
      const Matrix clean = m;
      const std::int64_t heads =
          attention ? run.sizes.num_attention_heads : run.sizes.index_n_heads;
      const std::int64_t width = m.cols / heads;
      std::fill_n(m.row(m.rows - 1) + (heads - 1) * width, width, 0.0f);
      expect_flagged(run, name);
      m = clean;
    }
  });
}

// ---- Misshapen records ----

TEST_F(CheckLayer, RefusesAStageOfAnotherSizeByName) {
  const RecordedRun clean({});
  const auto refusal = [&](const std::function<void(LayerStages&)>& spoil) -> std::string {
    LayerStages stages = clean.stages;
    spoil(stages);
    try {
      check_layer(clean.sizes, clean.numerics, clean.weights, clean.input, stages);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const auto& [name, member] : kMatrices)
    EXPECT_THAT(refusal([m = member](LayerStages& s) { (s.*m).data.pop_back(); }),
                HasSubstr("layer." + name + ": expected"));
  EXPECT_THAT(refusal([](LayerStages& s) { s.topk_indices.pop_back(); }),
              HasSubstr("layer.topk_indices: expected"));
}

}  // namespace
}  // namespace mlacheck::testing
