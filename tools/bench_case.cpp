#include "tools/bench_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <variant>

#include "reference/formats/dtype.h"

namespace mlacheck {

namespace {

constexpr std::int32_t kMostCalls = 64;
// The oracle does about 10^9 products in a second.
constexpr std::int64_t kJudgedProducts = 1'000'000'000;
constexpr std::int64_t kFewestRows = 2, kMostRows = 16;

std::int64_t bytes_of(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

// Bytes that a call of so many tokens reads, and those of the cache that it reads them from (0: it
// has none).
struct Reads {
  std::int64_t bytes = 0;
  std::int64_t cache_bytes = 0;
};

Reads reads_of(const SparseAttentionRecipe& r, std::int64_t tokens) {
  const std::int64_t row = detail::row_bytes(r);
  return {tokens * (r.topk * row + r.heads * r.qk_dim * bytes_of(r.q_dtype)), r.slots * row};
}
Reads reads_of(const IndexScoresRecipe& r, std::int64_t tokens) {
  const std::int64_t keys = r.keys * r.requests * r.dim * bytes_of(r.key_dtype);
  return {keys + tokens * r.heads * r.dim * bytes_of(r.q_dtype), keys};
}
Reads reads_of(const TopKRecipe& r, std::int64_t tokens) { return {tokens * r.scores * 4, 0}; }
Reads reads_of(const LayerRecipe&, std::int64_t) { return {}; }

}  // namespace

TimedCalls timed_calls(const Recipe& recipe, std::int64_t tokens, std::int64_t l2_bytes,
                       bool batch_invariant) {
  const Reads reads = std::visit([&](const auto& r) { return reads_of(r, tokens); }, recipe);
  const std::int64_t calls =
      (2 * l2_bytes + reads.bytes - 1) / std::max<std::int64_t>(reads.bytes, 1);
  return {tokens, static_cast<std::int32_t>(std::clamp<std::int64_t>(calls, 1, kMostCalls)),
          0 < reads.cache_bytes && reads.cache_bytes < 2 * l2_bytes, batch_invariant};
}

Recipe with_tokens(const Recipe& recipe, std::int64_t tokens) {
  Recipe result = recipe;
  std::visit([&](auto& r) { r.tokens = tokens; }, result);
  return result;
}

void require_work(const Recipe& recipe) {
  const auto refuse = [&](const char* why) {
    throw std::invalid_argument(fmt::format("bench: '{}': {}", minimal(recipe), why));
  };
  if (std::holds_alternative<LayerRecipe>(recipe)) refuse("times single operators, not op=layer");
  if (std::visit([](const auto& r) { return r.tokens; }, recipe) == 0) refuse("t of at least 1");
  if (const auto* r = std::get_if<SparseAttentionRecipe>(&recipe))
    if (r->topk == 0 || r->slots == 0) refuse("k and n of at least 1");
  if (const auto* r = std::get_if<IndexScoresRecipe>(&recipe))
    if (r->keys == 0) refuse("n of at least 1");
  if (const auto* r = std::get_if<TopKRecipe>(&recipe))
    if (r->topk == 0 || r->scores == 0) refuse("k and n of at least 1");
}

std::vector<std::unique_ptr<BenchCase>> make_bench_cases(const Recipe& recipe) {
  std::vector<std::unique_ptr<BenchCase>> cases;
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe)) {
    cases.push_back(detail::attention_bench(*attention));
  } else if (const auto* scores = std::get_if<IndexScoresRecipe>(&recipe)) {
    const auto shared = std::make_shared<const IndexScoresCase>(*scores);
    cases.push_back(detail::index_scores_bench(shared));
    cases.push_back(detail::index_select_bench(shared));
  } else if (const auto* selection = std::get_if<TopKRecipe>(&recipe)) {
    cases.push_back(detail::top_k_bench(*selection));
  }
  return cases;
}

namespace detail {

std::int64_t row_bytes(const SparseAttentionRecipe& r) {
  if (r.kv == KvFormat::record656) return kv_record_656::kBytes;
  return r.qk_dim * (r.kv == KvFormat::f32 ? 4 : 2);
}

constexpr std::string_view kWritten = " written";  // ends the stage of unwritten()

Finding unwritten(const KernelCall& call, CallTensor tensor, std::size_t element_bytes,
                  std::size_t stage) {
  Finding finding;
  finding.stage = fmt::format("{}{}", tensor_name(tensor), kWritten);
  for (std::int32_t i = 0; i < call.calls(); ++i) {
    const std::span<const std::byte> bytes = call.tensor(tensor, i, stage);
    for (std::size_t at = 0; at < bytes.size(); at += element_bytes)
      finding.failed += is_unwritten(bytes.subspan(at, element_bytes), tensor) ? 1 : 0;
    finding.elements += static_cast<std::int64_t>(bytes.size() / element_bytes);
  }
  if (finding.failed == 0) return finding;
  finding.status = Status::fail;
  finding.detail =
      fmt::format("{} of {} elements were left as they were", finding.failed, finding.elements);
  return finding;
}

std::int64_t judged_elements(const std::vector<Finding>& findings) {
  std::int64_t judged = 0;
  for (const Finding& finding : findings)
    if (!finding.stage.ends_with(kWritten)) judged += finding.elements;
  return judged;
}

std::span<const std::byte> output_row(const KernelCall& call, CallTensor tensor,
                                      std::int64_t tokens, std::int64_t t, std::size_t stage) {
  const std::span<const std::byte> all =
      call.tensor(tensor, static_cast<std::int32_t>(t / tokens), stage);
  const std::size_t bytes = all.size() / static_cast<std::size_t>(tokens);
  return all.subspan(static_cast<std::size_t>(t % tokens) * bytes, bytes);
}

std::vector<std::int64_t> judged_rows(std::int64_t rows, std::int64_t products) {
  const std::int64_t count = std::min(
      std::clamp(kJudgedProducts / std::max<std::int64_t>(products, 1), kFewestRows, kMostRows),
      rows);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 1; i <= count; ++i) chosen.push_back(i * rows / count - 1);
  return chosen;
}

}  // namespace detail

}  // namespace mlacheck
