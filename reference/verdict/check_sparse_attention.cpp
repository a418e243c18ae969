#include "reference/verdict/check_sparse_attention.h"

#include <mutex>

#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"

namespace mlacheck {

void SparseAttentionTally::add(const SparseAttentionInterval& interval, std::int64_t t,
                               const SparseAttentionOutputs& token) {
  const std::int64_t heads = interval.expected.rows(), columns = interval.expected.cols();
  has_lse |= token.lse != nullptr;
  has_max_logit |= token.max_logit != nullptr;
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto i = static_cast<std::size_t>(h);
    for (std::int64_t c = 0; c < columns; ++c)
      out.add({t, h, c}, interval.out(h, c), token.out[h * columns + c]);
    if (token.lse != nullptr) lse.add({t, h, -1}, interval.lse[i], token.lse[h]);
    if (token.max_logit != nullptr)
      max_logit.add({t, h, -1}, interval.max_logit[i], token.max_logit[h]);
  }
}

void SparseAttentionTally::merge(const SparseAttentionTally& other) {
  out.merge(other.out);
  lse.merge(other.lse);
  max_logit.merge(other.max_logit);
  has_lse |= other.has_lse;
  has_max_logit |= other.has_max_logit;
}

std::vector<Finding> SparseAttentionTally::findings() const {
  std::vector<Finding> findings = {out.finding("sparse_attention.out")};
  if (has_lse) findings.push_back(lse.finding("sparse_attention.lse"));
  if (has_max_logit) findings.push_back(max_logit.finding("sparse_attention.max_logit"));
  return findings;
}

std::vector<Finding> check_sparse_attention(const SparseAttentionProblem& problem,
                                            const NumericsContract& contract,
                                            const SparseAttentionOutputs& outputs, double lambda) {
  require_valid(problem);
  require_valid(contract);
  detail::require(contract.out_dtype == problem.out_dtype,
                  "contract.out_dtype: expected the problem's {}, got {}",
                  name_of(problem.out_dtype), name_of(contract.out_dtype));
  detail::require(outputs.out != nullptr || problem.tokens == 0,
                  "outputs.out: expected an address, got null");
  SparseAttentionTally tally(problem.out_dtype);
  const auto from = [](const float* values, std::int64_t offset) {
    return values != nullptr ? values + offset : nullptr;
  };
  std::mutex mutex;
  const auto part = [&, empty = tally] { return TallyPart(tally, mutex, empty); };
  detail::parallel_rows(problem.tokens, part, [&](std::int64_t t, auto& mine) {
    const std::int64_t row = t * problem.heads;
    mine->add(
        sparse_attention_interval(sparse_attention_oracle(problem, t, contract.duplicates),
                                  contract, lambda),
        t,
        {outputs.out + row * problem.v_dim, from(outputs.lse, row), from(outputs.max_logit, row)});
  });
  return tally.findings();
}

}  // namespace mlacheck
