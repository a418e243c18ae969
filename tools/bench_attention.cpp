#include "tools/bench_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "reference/operators/views.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"

namespace mlacheck {

namespace {

constexpr std::int32_t kMostCalls = 64;
// The oracle does about 10^9 products in a second.
constexpr std::int64_t kJudgedProducts = 1'000'000'000;
constexpr std::int64_t kFewestRows = 2, kMostRows = 16;

double real(std::int64_t x) { return static_cast<double>(x); }

std::int64_t row_bytes(const SparseAttentionRecipe& r) {
  switch (r.kv) {
    case KvFormat::record656:
      return kv_record_656::kBytes;
    case KvFormat::f32:
      return r.qk_dim * 4;
    case KvFormat::f16:
    case KvFormat::bf16:
      break;
  }
  return r.qk_dim * 2;
}

std::int64_t query_bytes(const SparseAttentionRecipe& r) {
  return r.heads * r.qk_dim * static_cast<std::int64_t>(size_of(r.q_dtype));
}

// Elements of an output that still have all bits set.
Finding unwritten(const KernelCall& call, CallTensor tensor, std::size_t element_bytes) {
  Finding finding;
  finding.stage = fmt::format("{} written", tensor_name(tensor));
  for (std::int32_t i = 0; i < call.calls(); ++i) {
    const std::span<const std::byte> bytes = call.tensor(tensor, i);
    for (std::size_t at = 0; at < bytes.size(); at += element_bytes) {
      const std::span<const std::byte> element = bytes.subspan(at, element_bytes);
      if (std::ranges::all_of(element, [](std::byte b) { return b == kPoison; })) ++finding.failed;
    }
    finding.elements += static_cast<std::int64_t>(bytes.size() / element_bytes);
  }
  if (finding.failed == 0) return finding;
  finding.status = Status::fail;
  finding.detail = fmt::format("{} of {} elements were left as they were, all bits set",
                               finding.failed, finding.elements);
  return finding;
}

// Row t of all calls' outputs, widened.
SparseAttentionResult output_row(const SparseAttentionProblem& p, const KernelCall& call,
                                 std::int64_t tokens, std::int64_t t) {
  const auto row = [&](CallTensor tensor) {
    const std::span<const std::byte> all =
        call.tensor(tensor, static_cast<std::int32_t>(t / tokens));
    const std::size_t bytes = all.size() / static_cast<std::size_t>(tokens);
    return all.subspan(static_cast<std::size_t>(t % tokens) * bytes, bytes);
  };
  SparseAttentionResult result;
  result.out.resize(static_cast<std::size_t>(p.heads * p.v_dim));
  load_row(row(CallTensor::out).data(), p.out_dtype, std::ssize(result.out), result.out.data());
  result.lse.resize(static_cast<std::size_t>(p.heads));
  load_row(row(CallTensor::lse).data(), DType::f32, p.heads, result.lse.data());
  return result;
}

// Evenly spread over all, the last among them.
std::vector<std::int64_t> judged_rows(const SparseAttentionProblem& p, std::int64_t rows) {
  const std::int64_t products = std::max<std::int64_t>(p.heads * p.topk * (p.qk_dim + p.v_dim), 1);
  const std::int64_t count =
      std::min(std::clamp(kJudgedProducts / products, kFewestRows, kMostRows), rows);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 1; i <= count; ++i) chosen.push_back(i * rows / count - 1);
  return chosen;
}

}  // namespace

TimedCalls timed_calls(const SparseAttentionRecipe& r, std::int64_t tokens, std::int64_t l2_bytes,
                       bool batch_invariant) {
  const std::int64_t read =
      std::max<std::int64_t>(tokens * (r.topk * row_bytes(r) + query_bytes(r)), 1);
  const std::int64_t calls = (2 * l2_bytes + read - 1) / read;
  return {tokens, static_cast<std::int32_t>(std::clamp<std::int64_t>(calls, 1, kMostCalls)),
          batch_invariant};
}

CallWork work_of(const SparseAttentionCase& attention, const TimedCalls& timed) {
  const SparseAttentionProblem& p = attention.problem;
  std::int64_t present = 0;
  for (std::int64_t t = 0; t < timed.tokens * timed.calls; ++t)
    present += std::ssize(present_slots(p, t));
  const double entries = real(present) / timed.calls;
  const auto out_bytes = static_cast<std::int64_t>(size_of(p.out_dtype));
  CallWork work;
  work.row_bytes = entries * real(row_bytes(attention.recipe));
  work.other_bytes = real(timed.tokens) * real(query_bytes(attention.recipe) + p.topk * 4 +
                                               p.heads * (p.v_dim * out_bytes + 4));
  work.flops = 2 * entries * real(p.heads) * real(p.qk_dim + p.v_dim);
  return work;
}

std::vector<Finding> judge_timed(const SparseAttentionCase& attention, const KernelCall& call,
                                 const NumericsContract& contract) {
  const SparseAttentionProblem& p = attention.problem;
  const std::int64_t tokens = call.problem().u.sparse_attention.tokens;
  std::vector<Finding> findings = {unwritten(call, CallTensor::out, size_of(p.out_dtype)),
                                   unwritten(call, CallTensor::lse, sizeof(float))};
  std::vector<Finding> out, lse;
  for (const std::int64_t t : judged_rows(p, tokens * call.calls())) {
    const std::vector<Finding> row = judge(row_of(p, t), contract, output_row(p, call, tokens, t));
    out.push_back(row[0]);
    lse.push_back(row[1]);
  }
  findings.push_back(worst_row("sparse_attention.out", out));
  findings.push_back(worst_row("sparse_attention.lse", lse));
  return findings;
}

}  // namespace mlacheck
