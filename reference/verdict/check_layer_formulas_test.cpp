#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/layer/index_operands.h"
#include "reference/layer/layer_norm.h"
#include "reference/layer/linear.h"
#include "reference/layer/rms_norm.h"
#include "reference/verdict/check_layer_testing.h"

// Layers with one wrong formula: the stage that has it is the one that check_layer names.
namespace mlacheck::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using CheckLayerFormulas = CheckLayer;

// ---- RoPE and norms ----

RopePairing other(RopePairing pairing) {
  return pairing == RopePairing::interleaved ? RopePairing::half_split : RopePairing::interleaved;
}

// RoPE on the last elements of every head, as the layer does it but for the pairing and the
// position.
Matrix rotated(const RecordedRun& run, const Matrix& x, std::int64_t head_dim, RopePairing pairing,
               std::int64_t first_position) {
  const std::int64_t dim = run.sizes.qk_rope_head_dim;
  const RopeTable table = run.table();
  Matrix y(x.rows, x.cols / head_dim * dim);
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t h = 0; h < x.cols / head_dim; ++h) {
      float* pe = y.row(r) + h * dim;
      std::copy_n(x.row(r) + (h + 1) * head_dim - dim, dim, pe);
      apply_rope({pe, size(dim)}, table, first_position + r, pairing, run.numerics.rope_roundings);
    }
  return y;
}

TEST_F(CheckLayerFormulas, SeesTheOtherRopePairing) {
  for_each_run([](RecordedRun& run) {
    const RopePairing right = run.sizes.rope_pairing;
    const std::int64_t latent = run.sizes.latent_head_dim(), first = run.input.first_query_row;
    ASSERT_EQ(rotated(run, run.stages.kv_a, latent, right, 0).data, run.stages.k_pe.data);
    const Matrix k_pe = run.stages.k_pe;
    run.stages.k_pe = rotated(run, run.stages.kv_a, latent, other(right), 0);
    expect_flagged(run, "k_pe");
    run.stages.k_pe = k_pe;

    const std::int64_t head = run.sizes.qk_head_dim();
    ASSERT_EQ(rotated(run, run.stages.q, head, right, first).data, run.stages.q_pe.data);
    run.stages.q_pe = rotated(run, run.stages.q, head, other(right), first);
    expect_flagged(run, "q_pe");
  });
}

TEST_F(CheckLayerFormulas, SeesQueriesThatAreRotatedAsIfTheyWereTheFirstRows) {
  RecordedRun run({"glm5:tiny", "hf", DType::bf16, true, 5});
  run.stages.q_pe = rotated(run, run.stages.q, run.sizes.qk_head_dim(), run.sizes.rope_pairing, 0);
  expect_flagged(run, "q_pe");
}

Matrix normed(const RecordedRun& run, const Matrix& x, const Weight& w, float eps) {
  const Matrix weight = widen(w);
  Matrix y(x.rows, weight.cols);
  for (std::int64_t r = 0; r < x.rows; ++r)
    rms_norm({x.row(r), size(weight.cols)}, weight.data, eps, run.numerics.rms_norm_roundings,
             {y.row(r), size(weight.cols)});
  return y;
}

// eps only shows where it is not small beside the mean square.
TEST_F(CheckLayerFormulas, SeesTheWrongEpsOfALoraNormOnSmallStates) {
  for (const DType activations : {DType::f32, DType::bf16}) {
    RecordedRun run({"glm5:tiny", "hf", activations, true, 0, 1e-3f});
    ASSERT_EQ(run.numerics.eps_lora, 1e-6);
    const Matrix q_resid = run.stages.q_resid;
    ASSERT_EQ(normed(run, run.stages.q_a, run.weights.q_a_layernorm, 1e-6f).data, q_resid.data);
    run.stages.q_resid = normed(run, run.stages.q_a, run.weights.q_a_layernorm, 1e-5f);
    expect_flagged(run, "q_resid");
    run.stages.q_resid = q_resid;

    run.stages.kv = normed(run, run.stages.kv_a, run.weights.kv_a_layernorm, 1e-5f);
    expect_flagged(run, "kv");
  }
}

Matrix layer_normed(const RecordedRun& run, std::span<const float> bias, float eps) {
  const Matrix weight = widen(run.weights.indexer_k_norm);
  Matrix y = run.stages.index_k_proj;
  for (std::int64_t r = 0; r < y.rows; ++r)
    layer_norm({y.row(r), size(y.cols)}, weight.data, bias, eps, run.numerics.activations,
               {y.row(r), size(y.cols)});
  return y;
}

TEST_F(CheckLayerFormulas, SeesADroppedBiasOfTheKeyNorm) {
  for_each_run([](RecordedRun& run) {
    const std::vector<float> bias = widen(run.weights.indexer_k_norm_bias).data;
    const auto eps = static_cast<float>(run.numerics.eps_knorm);
    ASSERT_EQ(layer_normed(run, bias, eps).data, run.stages.index_k.data);
    run.stages.index_k = layer_normed(run, std::vector<float>(bias.size()), eps);
    expect_flagged(run, "index_k");
  });
}

TEST_F(CheckLayerFormulas, SeesTheWrongEpsOfTheKeyNormOnSmallStates) {
  for (const DType activations : {DType::f32, DType::bf16}) {
    RecordedRun run({"glm5:tiny", "hf", activations, true, 0, 1e-3f});
    ASSERT_EQ(run.numerics.eps_knorm, 1e-6);
    run.stages.index_k = layer_normed(run, widen(run.weights.indexer_k_norm_bias).data, 1e-5f);
    expect_flagged(run, "index_k");
  }
}

TEST_F(CheckLayerFormulas, SeesAForgottenConstantOfTheIndexWeights) {
  for_each_run([](RecordedRun& run) {
    const float dim_scale = std::sqrt(static_cast<float>(run.sizes.index_head_dim));
    for (float& w : run.stages.index_weights.data) w *= dim_scale;
    expect_flagged(run, "index_weights");
  });
}

// Index scores of the recorded queries, or of their negatives.
std::vector<float> scores_of(const RecordedRun& run, bool negated) {
  const RopeTable table = run.table();
  ScoredVectors q =
      scored_vectors(run.stages.index_q, run.sizes, run.numerics, table, run.input.first_query_row,
                     static_cast<float>(run.numerics.index_q_eps));
  if (negated) {
    for (float& x : q.values) x = -x;
    for (E4m3& x : q.codes) x.bits ^= 0x80;
  }
  const ScoredVectors k = scored_vectors(run.stages.index_k, run.sizes, run.numerics, table, 0,
                                         static_cast<float>(run.numerics.index_k_eps));
  const IndexOperands operands(run.sizes, q, k, run.stages.index_weights);
  return index_scores(operands.problem(), run.numerics.index_reduction);
}

// sum_h w (q . k) = sum_h w max(0, q . k) - sum_h w max(0, -q . k).
TEST_F(CheckLayerFormulas, SeesADroppedRelu) {
  for_each_run([](RecordedRun& run) {
    std::vector<float>& scores = run.stages.index_scores.data;
    ASSERT_EQ(scores_of(run, false), scores);
    const std::vector<float> negative = scores_of(run, true);
    for (std::size_t i = 0; i < scores.size(); ++i)
      if (scores[i] != -kInfinity) scores[i] -= negative[i];
    expect_flagged(run, "index_scores");
  });
}

TEST_F(CheckLayerFormulas, SeesScoresThatLookAhead) {
  for_each_run([](RecordedRun& run) {
    run.stages.index_scores.row(0)[run.input.first_query_row + 1] = -1e30f;
    expect_flagged(run, "index_scores");
  });
}

// ---- Selection ----

// The last row's smallest member for its best candidate that was left out: a margin of both scores.
void exchange_member(RecordedRun& run) {
  const std::int64_t last = run.stages.index_scores.rows - 1;
  const float* scores = run.stages.index_scores.row(last);
  std::int32_t* members = run.stages.topk_indices.data() + last * run.stages.topk;
  std::int32_t* const end = members + run.stages.topk;
  const auto below = [&](std::int32_t a, std::int32_t b) { return scores[a] < scores[b]; };
  std::vector<std::int32_t> left_out;
  for (std::int32_t s = 0; s < kRows; ++s)
    if (std::find(members, end, s) == end) left_out.push_back(s);
  *std::max_element(members, end, below) =
      *std::min_element(left_out.begin(), left_out.end(), below);
  std::sort(members, end);
}

TEST_F(CheckLayerFormulas, SeesAnExchangedMember) {
  for_each_run([](RecordedRun& run) {
    exchange_member(run);
    expect_flagged(run, "topk_indices");
  });
}

TEST_F(CheckLayerFormulas, SeesAMemberThatLooksAhead) {
  for_each_run([](RecordedRun& run) {
    run.stages.topk_indices[0] = static_cast<std::int32_t>(run.input.first_query_row) + 1;
    expect_flagged(run, "topk_indices");
  });
}

TEST_F(CheckLayerFormulas, SeesASharedLayerThatSelectsForItself) {
  for (const std::int64_t first : {0, 5}) {
    RecordedRun run({"glm5:tiny", "hf", DType::bf16, false, first});
    const RecordedRun full({"glm5:tiny", "hf", DType::bf16, true, first});
    run.stages.topk_indices = full.stages.topk_indices;
    ASSERT_NE(run.stages.topk_indices, run.given);
    expect_flagged(run, "topk_indices");
    // Even when it attends to its own, consistently.
    run.input.shared_indices->data = full.stages.topk_indices.data();
    run.stages = attention_layer(run.sizes, run.numerics, run.weights, run.input);
    run.input.shared_indices->data = run.given.data();
    expect_flagged(run, "topk_indices");
  }
}

// ---- Attention ----

// The stages with attention run again on changed operands.
SparseAttentionResult attend(const RecordedRun& run, const LayerNumerics& numerics,
                             const std::vector<std::int32_t>& indices) {
  const LayerStages& s = run.stages;
  const AttentionOperands operands(run.sizes, numerics, s.q_latent, s.q_pe, s.kv, s.k_pe,
                                   {indices.data(), s.q.rows, s.topk});
  return sparse_attention(operands.problem(), {.weight_dtype = numerics.softmax_weights});
}

TEST_F(CheckLayerFormulas, SeesADroppedKey) {
  for_each_run([](RecordedRun& run) {
    const LayerStages clean = run.stages;
    ASSERT_EQ(attend(run, run.numerics, clean.topk_indices).out, clean.attn_latent.data);
    std::vector<std::int32_t> fewer = clean.topk_indices;
    fewer[fewer.size() - 1] = -1;  // of the last row
    const SparseAttentionResult result = attend(run, run.numerics, fewer);
    run.stages.attn_latent.data = result.out;
    expect_flagged(run, "attn_latent");
    run.stages.attn_latent = clean.attn_latent;
    run.stages.lse.data = result.lse;
    expect_flagged(run, "lse");
  });
}

TEST_F(CheckLayerFormulas, SeesAnLseThatIsOffByLn2) {
  for_each_run([](RecordedRun& run) {
    run.stages.lse.data.back() += std::log(2.0f);
    expect_flagged(run, "lse");
  });
}

TEST_F(CheckLayerFormulas, SeesRowsThatWereReadAroundTheRecord) {
  for (const char* profile : {"vllm", "deepseek"}) {
    RecordedRun run({"glm5:tiny", profile, DType::bf16});
    LayerNumerics plain = run.numerics;
    plain.kv_storage = KvStorage::plain;
    run.stages.attn_latent.data = attend(run, plain, run.stages.topk_indices).out;
    expect_flagged(run, "attn_latent");
  }
}

}  // namespace
}  // namespace mlacheck::testing
