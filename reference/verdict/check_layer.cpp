#include "reference/verdict/check_layer.h"

#include <array>
#include <cmath>
#include <span>

#include "reference/layer/index_operands.h"
#include "reference/layer/linear.h"
#include "reference/operators/require.h"
#include "reference/operators/size.h"
#include "reference/oracle/stages.h"
#include "reference/verdict/bits.h"
#include "reference/verdict/check_index_scores.h"
#include "reference/verdict/check_sparse_attention.h"
#include "reference/verdict/stage_interval.h"
#include "reference/verdict/top_k_rule.h"

namespace mlacheck {
namespace {

using detail::size;

// The oracle of one row appended to that of the rows before it.
void append(StageOracle& all, const StageOracle& row) {
  all.value.insert(all.value.end(), row.value.begin(), row.value.end());
  all.gauge.insert(all.gauge.end(), row.gauge.begin(), row.gauge.end());
  all.radius.insert(all.radius.end(), row.radius.begin(), row.radius.end());
}

// What all the checks of one run share.
class LayerCheck {
 public:
  LayerCheck(const ModelSizes& sizes, const LayerNumerics& numerics, const LayerWeights& weights,
             const LayerInput& input, const LayerStages& stages)
      : sizes_(sizes),
        numerics_(numerics),
        weights_(weights),
        input_(input),
        stages_(stages),
        first_(input.first_query_row),
        products_(reference_contract().qk),
        table_(
            rope_table(sizes.rope, sizes.qk_rope_head_dim, input.positions, numerics.rope_table)) {}

  std::vector<Finding> run() {
    const DType dtype = numerics_.activations;
    const std::int64_t queries = input_.hidden.rows - first_;
    linear("layer.q_a", query_rows(), queries, weights_.q_a_proj, dtype, stages_.q_a);
    norm("layer.q_resid", stages_.q_a, weights_.q_a_layernorm, stages_.q_resid);
    linear("layer.kv_a", input_.hidden.data, input_.hidden.rows, weights_.kv_a_proj_with_mqa, dtype,
           stages_.kv_a);
    norm("layer.kv", stages_.kv_a, weights_.kv_a_layernorm, stages_.kv);
    rope("layer.k_pe", stages_.kv_a, sizes_.latent_head_dim(), 0, stages_.k_pe);
    linear("layer.q", stages_.q_resid.data, queries, weights_.q_b_proj, dtype, stages_.q);
    absorbed_queries();
    rope("layer.q_pe", stages_.q, sizes_.qk_head_dim(), first_, stages_.q_pe);
    if (input_.shared_indices)
      shared_selection(*input_.shared_indices);
    else
      indexer();
    attention();
    expanded_values();
    linear("layer.output", stages_.attn_output.data, queries, weights_.o_proj, dtype,
           stages_.output);
    return std::move(findings_);
  }

 private:
  std::span<const float> query_rows() const {
    return {input_.hidden.row(first_), size((input_.hidden.rows - first_) * input_.hidden.cols)};
  }

  static void require_size(const char* stage, std::size_t got, std::int64_t expected) {
    detail::require(got == size(expected), "{}: expected {} elements, got {}", stage, expected,
                    got);
  }

  void linear(const char* stage, std::span<const float> x, std::int64_t rows, const Weight& w,
              DType dtype, const Matrix& got) {
    const Matrix made = w.data == nullptr ? widen(w) : Matrix();
    const void* data = w.data == nullptr ? made.data.data() : w.data;
    const StageOracle oracle = linear_oracle(x, rows, data, w.dtype, w.rows);
    findings_.push_back(
        check_stage(stage, oracle, linear_error(products_, w.cols), dtype, got.data, got.cols));
  }

  void norm(const char* stage, const Matrix& x, const Weight& w, const Matrix& got) {
    const Matrix weight = widen(w);
    const auto eps = static_cast<double>(static_cast<float>(numerics_.eps_lora));
    StageOracle oracle;
    for (std::int64_t r = 0; r < x.rows; ++r)
      append(oracle, rms_norm_oracle({x.row(r), size(weight.cols)}, weight.data, eps));
    findings_.push_back(check_stage(
        stage, oracle, rms_norm_error(products_, weight.cols, numerics_.rms_norm_roundings == 2),
        numerics_.activations, got.data, got.cols));
  }

  // RoPE on the last qk_rope_head_dim of every head_dim elements of x.
  void rope(const char* stage, const Matrix& x, std::int64_t head_dim, std::int64_t first_position,
            const Matrix& got) {
    const std::int64_t dim = sizes_.qk_rope_head_dim;
    StageOracle oracle;
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const std::int64_t position = first_position + r;
      for (std::int64_t end = head_dim; end <= x.cols; end += head_dim)
        append(oracle, rope_oracle({x.row(r) + end - dim, size(dim)},
                                   {table_.cos.row(position), size(dim / 2)},
                                   {table_.sin.row(position), size(dim / 2)}, sizes_.rope_pairing));
    }
    findings_.push_back(check_stage(stage, oracle, rope_error(numerics_.rope_roundings == 3),
                                    numerics_.activations, got.data, got.cols));
  }

  // Rows [h * (nope + v), ...) of W_kvb: W_UK [nope, latent] and W_UV [v, latent] of head h.
  std::vector<float> kv_b_of(std::int64_t h) const {
    const std::int64_t rows = sizes_.qk_nope_head_dim + sizes_.v_head_dim;
    std::vector<float> head(size(rows * sizes_.kv_lora_rank));
    widen_rows(weights_.kv_b_proj, h * rows, rows, head.data());
    return head;
  }

  void absorbed_queries() {
    const std::int64_t heads = sizes_.num_attention_heads;
    const std::int64_t nope = sizes_.qk_nope_head_dim;
    const std::int64_t latent = sizes_.kv_lora_rank;
    StageOracle oracle(size(stages_.q.rows * heads * latent));
    std::vector<float> transposed(size(nope * latent));
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::vector<float> head = kv_b_of(h);
      for (std::int64_t j = 0; j < nope; ++j)
        for (std::int64_t c = 0; c < latent; ++c)
          transposed[size(c * nope + j)] = head[size(j * latent + c)];
      place(oracle,
            head_oracle(stages_.q, h, sizes_.qk_head_dim(), nope, transposed.data(), latent), h,
            heads, latent);
    }
    findings_.push_back(check_stage("layer.q_latent", oracle, linear_error(products_, nope),
                                    numerics_.activations, stages_.q_latent.data, heads * latent));
  }

  void expanded_values() {
    const std::int64_t heads = sizes_.num_attention_heads;
    const std::int64_t value = sizes_.v_head_dim;
    const std::int64_t latent = sizes_.kv_lora_rank;
    StageOracle oracle(size(stages_.q.rows * heads * value));
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::vector<float> head = kv_b_of(h);
      const float* w_uv = head.data() + sizes_.qk_nope_head_dim * latent;
      place(oracle, head_oracle(stages_.attn_latent, h, latent, latent, w_uv, value), h, heads,
            value);
    }
    findings_.push_back(check_stage("layer.attn_output", oracle, linear_error(products_, latent),
                                    numerics_.activations, stages_.attn_output.data,
                                    heads * value));
  }

  // The first `inner` of head h's head_dim columns of x, times w [outputs, inner].
  static StageOracle head_oracle(const Matrix& x, std::int64_t h, std::int64_t head_dim,
                                 std::int64_t inner, const float* w, std::int64_t outputs) {
    std::vector<float> rows(size(x.rows * inner));
    for (std::int64_t r = 0; r < x.rows; ++r)
      std::copy_n(x.row(r) + h * head_dim, inner, rows.data() + r * inner);
    return linear_oracle(rows, x.rows, w, DType::f32, outputs);
  }

  // Head h's [rows, outputs] into columns [h * outputs, (h + 1) * outputs) of all heads'.
  static void place(StageOracle& all, const StageOracle& head, std::int64_t h, std::int64_t heads,
                    std::int64_t outputs) {
    const std::int64_t rows = std::ssize(head.value) / outputs;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < outputs; ++c) {
        const std::size_t to = size((r * heads + h) * outputs + c);
        const std::size_t from = size(r * outputs + c);
        all.value[to] = head.value[from];
        all.gauge[to] = head.gauge[from];
        all.radius[to] = head.radius[from];
      }
  }

  void indexer() {
    const DType dtype = numerics_.activations;
    const std::int64_t queries = stages_.q_resid.rows;
    linear("layer.index_q", stages_.q_resid.data, queries, weights_.indexer_wq_b, dtype,
           stages_.index_q);
    linear("layer.index_k_proj", input_.hidden.data, input_.hidden.rows, weights_.indexer_wk, dtype,
           stages_.index_k_proj);
    index_k();
    linear("layer.index_weights_raw", query_rows(), queries, weights_.indexer_weights_proj,
           numerics_.index_weights, stages_.index_weights_raw);

    const ScoredVectors q = scored_vectors(stages_.index_q, sizes_, numerics_, table_, first_,
                                           static_cast<float>(numerics_.index_q_eps));
    const ScoredVectors k = scored_vectors(stages_.index_k, sizes_, numerics_, table_, 0,
                                           static_cast<float>(numerics_.index_k_eps));
    index_weights(q);
    const IndexOperands operands(sizes_, q, k, stages_.index_weights);
    NumericsContract contract = reference_contract();
    if (numerics_.index_reduction == HeadReduction::sequential)
      contract.index_heads.order = SumOrder::sequential;
    require_size("layer.index_scores", stages_.index_scores.data.size(),
                 queries * input_.hidden.rows);
    Finding scores =
        check_index_scores(operands.problem(), contract, stages_.index_scores.data.data());
    scores.stage = "layer.index_scores";
    findings_.push_back(std::move(scores));
    selection(contract);
  }

  void index_k() {
    const Matrix weight = widen(weights_.indexer_k_norm);
    const Matrix bias = widen(weights_.indexer_k_norm_bias);
    const auto eps = static_cast<double>(static_cast<float>(numerics_.eps_knorm));
    const Matrix& x = stages_.index_k_proj;
    StageOracle oracle;
    for (std::int64_t s = 0; s < x.rows; ++s)
      append(oracle, layer_norm_oracle({x.row(s), size(x.cols)}, weight.data, bias.data, eps));
    findings_.push_back(check_stage("layer.index_k", oracle, layer_norm_error(products_, x.cols),
                                    numerics_.activations, stages_.index_k.data, x.cols));
  }

  // Two constants, each rounded to fp32, and three products: 5u.
  void index_weights(const ScoredVectors& q) {
    const double constant = 1 / std::sqrt(static_cast<double>(sizes_.index_n_heads) *
                                          static_cast<double>(sizes_.index_head_dim));
    StageOracle oracle;
    for (std::size_t i = 0; i < stages_.index_weights_raw.data.size(); ++i) {
      const double value = static_cast<double>(stages_.index_weights_raw.data[i]) *
                           static_cast<double>(q.scales[i]) * constant;
      oracle.value.push_back(value);
      oracle.gauge.push_back(std::abs(value));
      oracle.radius.push_back(std::abs(value) * 0x1p-50);
    }
    const StageError error{.core = 5.1 * 0x1p-24, .likely = 5.1 * 0x1p-24, .floor = 0x1p-148};
    findings_.push_back(check_stage("layer.index_weights", oracle, error, DType::f32,
                                    stages_.index_weights.data, stages_.index_weights.cols));
  }

  // A shared layer's selection is the one that it was given.
  void shared_selection(const IndexRows& given) {
    require_size("layer.topk_indices", stages_.topk_indices.size(), given.rows * given.width);
    const std::array<std::int64_t, 2> shape = {given.rows, given.width};
    findings_.push_back(compare_bits("layer.topk_indices", given.data, stages_.topk_indices.data(),
                                     DType::i32, shape));
  }

  // Every row's selection is the exact top-k of its own scores; the worst row stands for all.
  void selection(const NumericsContract& contract) {
    require_size("layer.topk_indices", stages_.topk_indices.size(),
                 stages_.index_scores.rows * stages_.topk);
    Finding worst;
    worst.stage = "layer.topk_indices";
    for (std::int64_t r = 0; r < stages_.index_scores.rows; ++r) {
      Finding row = check_top_k_of_own_scores(
          {stages_.topk_indices.data() + r * stages_.topk, size(stages_.topk)}, 0,
          {stages_.index_scores.row(r), size(first_ + r + 1)}, contract);
      worst.elements += stages_.topk;
      if (row.status <= worst.status) continue;
      worst.status = row.status;
      worst.detail = "row " + std::to_string(r) + ": " + row.detail;
      worst.worst = row.worst;
      worst.ratio = row.ratio;
    }
    findings_.push_back(std::move(worst));
  }

  void attention() {
    const IndexRows selected{stages_.topk_indices.data(), stages_.q.rows, stages_.topk};
    const AttentionOperands operands(sizes_, numerics_, stages_.q_latent, stages_.q_pe, stages_.kv,
                                     stages_.k_pe, input_.forced_indices.value_or(selected));
    const SparseAttentionProblem& p = operands.problem();
    require_size("layer.attn_latent", stages_.attn_latent.data.size(),
                 p.tokens * p.heads * p.v_dim);
    require_size("layer.lse", stages_.lse.data.size(), p.tokens * p.heads);
    const std::vector<Finding> findings = check_sparse_attention(
        p, reference_contract(numerics_.activations, numerics_.softmax_weights),
        {stages_.attn_latent.data.data(), stages_.lse.data.data(), nullptr});
    for (Finding finding : findings) {
      finding.stage = finding.stage == "sparse_attention.lse" ? "layer.lse" : "layer.attn_latent";
      findings_.push_back(std::move(finding));
    }
  }

  const ModelSizes& sizes_;
  const LayerNumerics& numerics_;
  const LayerWeights& weights_;
  const LayerInput& input_;
  const LayerStages& stages_;
  std::int64_t first_;
  Accumulation products_;
  RopeTable table_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_layer(const ModelSizes& sizes, const LayerNumerics& numerics,
                                 const LayerWeights& weights, const LayerInput& input,
                                 const LayerStages& stages) {
  return LayerCheck(sizes, numerics, weights, input, stages).run();
}

}  // namespace mlacheck
