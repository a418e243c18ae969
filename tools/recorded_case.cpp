#include "tools/recorded_case.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "reference/verdict/check_index_scores.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_contract.h"

namespace mlacheck {

namespace {

using AnyCase = std::variant<SparseAttentionCase, IndexScoresCase, TopKCase>;

AnyCase case_of(const Recipe& recipe) {
  if (const auto* r = std::get_if<SparseAttentionRecipe>(&recipe)) return SparseAttentionCase(*r);
  if (const auto* r = std::get_if<IndexScoresRecipe>(&recipe)) return IndexScoresCase(*r);
  if (const auto* r = std::get_if<TopKRecipe>(&recipe)) return TopKCase(*r);
  throw std::invalid_argument("device records are of single operators, not of op=layer");
}

// Inputs with a row for each token.
constexpr std::array<std::string_view, 10> kRowInputs = {
    "q",         "indices", "topk_length", "weights", "request",
    "key_begin", "key_end", "scores",      "begin",   "end"};

void set_rows(SparseAttentionCase& c, std::int64_t rows) { c.problem.tokens = rows; }
void set_rows(IndexScoresCase& c, std::int64_t rows) { c.problem.tokens = rows; }
void set_rows(TopKCase& c, std::int64_t rows) { c.recipe.tokens = rows; }

std::unique_ptr<KernelCall> call_of(const SparseAttentionCase& c, RecordMode mode) {
  return mode == RecordMode::batch_invariant ? make_batch_invariant_call(c) : make_call(c);
}
std::unique_ptr<KernelCall> call_of(const IndexScoresCase& c, RecordMode) {
  return make_call(c.problem);
}
std::unique_ptr<KernelCall> call_of(const TopKCase& c, RecordMode) {
  return make_call(problem_of(c));
}

std::vector<Finding> judge_case(const SparseAttentionCase& c, const KernelCall& call,
                                const mlacheck_kernel& kernel) {
  return judge(c.problem, contract_of(kernel), attention_result(call));
}
std::vector<Finding> judge_case(const IndexScoresCase& c, const KernelCall& call,
                                const mlacheck_kernel& kernel) {
  return {check_index_scores(c.problem, contract_of(kernel), scores_result(call).data())};
}
std::vector<Finding> judge_case(const TopKCase& c, const KernelCall& call,
                                const mlacheck_kernel& kernel) {
  return judge(c, contract_of(kernel), kernel.conventions.row_relative != 0, selected_result(call));
}

std::int64_t tiles(std::int64_t n) { return std::max<std::int64_t>((n + 15) / 16 * 16, 16); }

}  // namespace

RecordedCase::RecordedCase(const RecordRequest& request)
    : mode_(request.mode),
      case_(case_of(request.recipe)),
      input_hash_(std::visit([](const auto& c) { return hash_of(c.inputs); }, case_)) {}

std::int32_t RecordedCase::op() const {
  static constexpr std::int32_t kOperators[] = {MLACHECK_SPARSE_ATTENTION, MLACHECK_INDEX_SCORES,
                                                MLACHECK_TOP_K};
  return kOperators[case_.index()];
}

void RecordedCase::keep_rows(std::span<const std::int64_t> rows) {
  std::visit(
      [&](auto& c) {
        for (Tensor& tensor : c.inputs) {
          if (std::ranges::find(kRowInputs, tensor.name) == kRowInputs.end()) continue;
          const std::size_t bytes = tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]);
          for (std::size_t i = 0; i < rows.size(); ++i)
            std::memmove(tensor.bytes.data() + i * bytes,
                         tensor.bytes.data() + static_cast<std::size_t>(rows[i]) * bytes, bytes);
        }
        set_rows(c, std::ssize(rows));
      },
      case_);
}

std::unique_ptr<KernelCall> RecordedCase::make_call() const {
  return std::visit([this](const auto& c) { return call_of(c, mode_); }, case_);
}

DeviceOutputs RecordedCase::outputs_of(const KernelCall& call) const {
  switch (op()) {
    case MLACHECK_INDEX_SCORES:
      return {call.tensor(CallTensor::scores_out)};
    case MLACHECK_TOP_K:
      return {call.tensor(CallTensor::selected)};
    default:
      return {call.tensor(CallTensor::out), call.tensor(CallTensor::lse),
              call.tensor(CallTensor::max_logit)};
  }
}

std::vector<Finding> RecordedCase::judge(const KernelCall& call,
                                         const mlacheck_kernel& kernel) const {
  return std::visit([&](const auto& c) { return judge_case(c, call, kernel); }, case_);
}

std::int64_t emulated_products_of_row(const Recipe& recipe) {
  if (const auto* r = std::get_if<SparseAttentionRecipe>(&recipe))
    return tiles(r->heads) * tiles(r->topk) * (r->qk_dim + r->v_dim);
  if (const auto* r = std::get_if<IndexScoresRecipe>(&recipe))
    return tiles(r->heads) * tiles(r->keys) * tiles(r->dim);
  // A score is looked at several times, by one of the 1,024 emulated threads that a row has.
  constexpr std::int64_t kProductsOfScore = 256, kProductsOfRow = 4'000'000;
  return kProductsOfRow + std::get<TopKRecipe>(recipe).scores * kProductsOfScore;
}

bool has_independent_rows(const RecordRequest& request) {
  return request.mode == RecordMode::batch_invariant ||
         !std::holds_alternative<SparseAttentionRecipe>(request.recipe);
}

}  // namespace mlacheck
