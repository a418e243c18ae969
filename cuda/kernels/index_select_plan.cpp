#include "cuda/kernels/index_select_plan.h"

#include <algorithm>

#include "cuda/kernels/index_scores_plan.h"
#include "cuda/kernels/plan_support.h"
#include "cuda/kernels/top_k_plan.h"

namespace mlacheck::kernels {
namespace {

// Scores that are still in the L2 cache (60 MB of an H200, 96 and 128 of SM120) when they are read
// again.
constexpr std::int64_t kScoreBytes = 40 << 20;
constexpr std::int64_t kBytes = sizeof(float);

mlacheck_top_k_problem selection_of(const mlacheck_index_select_problem& p, std::int64_t rows,
                                    std::int64_t score_stride) {
  mlacheck_top_k_problem selection = {};
  selection.rows = rows;
  selection.columns = p.scores.key_count;
  selection.k = p.k;
  selection.score_stride = score_stride;
  // Without keys the ranges may be absent.
  selection.has_row_range = p.scores.key_count > 0 ? p.scores.has_key_range : 0;
  return selection;
}

}  // namespace

std::string refusal(const mlacheck_index_select_problem& p) {
  mlacheck_index_scores_problem rows = p.scores;  // of one part: its limits are not those of all
  rows.tokens = std::min<std::int64_t>(rows.tokens, 1);
  rows.score_stride = rows.key_count;
  std::string reason = refusal(rows);
  if (reason.empty()) reason = refusal(selection_of(p, p.scores.tokens, 0));
  if (reason.empty() && p.to_slots != 0 && p.scores.has_block_table == 0)
    return "to_slots without a block table: keys are slots already";
  return reason;
}

IndexSelectPlan make_plan(const mlacheck_index_select_problem& p, unsigned multiprocessors) {
  IndexSelectPlan plan;
  const std::int64_t tokens = p.scores.tokens;
  if (tokens == 0 || p.k == 0) return plan;
  plan.score_stride = divide_up(p.scores.key_count, 4) * 4;
  const std::int64_t row_bytes = std::max<std::int64_t>(plan.score_stride * kBytes, 1);
  plan.rows =
      std::clamp<std::int64_t>(std::min(kScoreBytes / row_bytes, kInt32Max / p.k), 1, tokens);
  // Whole items of rows that share a load of the keys.
  if (plan.rows < tokens && plan.rows > kMostItemRows) plan.rows -= plan.rows % kMostItemRows;
  plan.score_bytes = static_cast<std::uint64_t>(divide_up(plan.rows * row_bytes, 256) * 256);
  // Fewer rows may be cut into more slices: the last part's.
  const std::int64_t last = tokens % plan.rows == 0 ? plan.rows : tokens % plan.rows;
  std::uint64_t selection = 0;
  for (const std::int64_t rows : {plan.rows, last})
    selection =
        std::max(selection, workspace_bytes(make_plan(selection_of(p, rows, 0), multiprocessors)));
  plan.workspace_bytes = plan.score_bytes + selection;
  return plan;
}

IndexSelectPart::IndexSelectPart(const mlacheck_index_select_problem& p, const mlacheck_tensors& t,
                                 const IndexSelectPlan& plan, void* workspace, std::int64_t first)
    : scores(p.scores),
      scores_tensors(t),
      selection(selection_of(p, std::min(plan.rows, p.scores.tokens - first), plan.score_stride)),
      selection_tensors(t),
      selection_workspace(static_cast<std::byte*>(workspace) + plan.score_bytes) {
  const auto from = [&](const auto* data) { return data == nullptr ? data : data + first; };
  scores.tokens = selection.rows;
  scores.score_stride = plan.score_stride;
  scores_tensors.q = static_cast<const std::uint16_t*>(t.q) + first * p.scores.q_token_stride;
  scores_tensors.weights = t.weights + first * p.scores.heads;
  scores_tensors.request = from(t.request);
  scores_tensors.range_begin = selection_tensors.range_begin = from(t.range_begin);
  scores_tensors.range_end = selection_tensors.range_end = from(t.range_end);
  scores_tensors.scores_out = static_cast<float*>(workspace);
  selection_tensors.scores_in = scores_tensors.scores_out;
  selection_tensors.selected = t.selected + first * p.k;
}

}  // namespace mlacheck::kernels
