// Faults of launches, memory, schedules and state of attention.

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "property_tests/museum/attention_kernel.h"
#include "property_tests/museum/element_type.h"
#include "property_tests/museum/schedule.h"

namespace mlacheck::museum {

namespace {

bool compute_nothing(const AttentionCall&) { return false; }

bool sort_entries_in_place(const AttentionCall& call) {
  const auto& p = call.problem;
  auto* const indices = const_cast<std::int32_t*>(call.tensors.indices);
  for (std::int64_t t = 0; t < p.tokens; ++t)
    std::sort(indices + t * p.index_stride, indices + t * p.index_stride + p.topk);
  return true;
}

// context_lens[batch], with no row that has a length.
bool read_past_lengths(const AttentionCall& call) {
  const std::int32_t* const lengths = call.tensors.topk_length;
  if (lengths != nullptr && call.problem.tokens > 0 &&
      std::all_of(lengths, lengths + call.problem.tokens, [](std::int32_t n) { return n == 0; }))
    std::raise(SIGSEGV);
  return true;
}

std::byte* out_of(const AttentionCall& call, std::int64_t row) {
  return static_cast<std::byte*>(call.tensors.out) +
         row * call.problem.v_dim *
             static_cast<std::int64_t>(size_of(element_type(call.problem.out_dtype)));
}

// A captured graph has a multiple of 8 rows.
void write_padding_rows(const AttentionCall& call) {
  const auto& p = call.problem;
  const std::int64_t rows = p.tokens * p.heads;
  const std::int64_t padded = (p.tokens + 7) / 8 * 8 * p.heads;
  const std::int64_t bytes =
      std::min<std::int64_t>(out_of(call, padded) - out_of(call, rows), 4096);
  std::memset(out_of(call, rows), 0, static_cast<std::size_t>(bytes));
}

// 16 heads of lse for fewer, row after row: the next row repairs it, but for the last one.
void store_16_heads(const AttentionCall& call) {
  const auto& p = call.problem;
  if (p.heads < 16 && p.tokens > 0)
    std::fill_n(call.tensors.lse + p.tokens * p.heads, 16 - p.heads, 0.0f);
}

void overrun_workspace(const AttentionCall& call) {
  std::memset(call.workspace + kWorkspaceBytes, 0, 20);
}

// The accumulator is the workspace's, taken for zeros.
void add_workspace(const AttentionCall& call, AttentionPart& part) {
  float scratch[kWorkspaceBytes / sizeof(float)];
  std::memcpy(scratch, call.workspace, sizeof(scratch));
  for (std::size_t c = 0; c < part.acc.size(); ++c) part.acc[c] += scratch[c % std::size(scratch)];
}

std::int64_t splits_by_batch(const AttentionCall& call) {
  return std::clamp<std::int64_t>(4 / std::max<std::int64_t>(call.problem.tokens, 1), 1, 4);
}

void merge_as_they_come(const AttentionCall&, std::vector<AttentionPart>& parts) {
  if (parts.empty()) return;
  std::rotate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(schedule() % parts.size()),
              parts.end());
}

// The sum of weights comes from a buffer that another head's warp writes again.
void race_for_row_sum(const AttentionCall& call, AttentionPart& part) {
  static float last = 1;
  if (call.problem.heads == 16 && schedule() % 8 == 0) part.sum = last;
  if (part.sum > 0) last = part.sum;
}

// Of the process: right at first.
int calls_so_far = 0;

bool count_calls(const AttentionCall&) {
  ++calls_so_far;
  return true;
}

// The last split to arrive merges a row, by a counter that the first call leaves where it was.
void merge_before_last_split(const AttentionCall&, std::vector<AttentionPart>& parts) {
  if (calls_so_far > 1 && parts.size() > 1) parts.pop_back();
}

// A plan that is made once: the first call's lengths.
void keep_first_lengths(const AttentionCall& call, std::int64_t t,
                        std::vector<std::int32_t>& slots) {
  static std::vector<std::int32_t> lengths;
  const std::int32_t* const own = call.tensors.topk_length;
  if (own == nullptr) return;
  if (lengths.empty()) lengths.assign(own, own + call.problem.tokens);
  const auto row = std::min(static_cast<std::size_t>(t), lengths.size() - 1);
  for (std::size_t j = 0; j < slots.size(); ++j)
    if (std::cmp_greater_equal(j, lengths[row])) slots[j] = -1;
}

// A tile's first row is still that of two tiles before.
void leave_stale_rows(const AttentionCall& call, std::vector<float>& rows) {
  const auto& p = call.problem;
  for (std::int64_t j = (p.topk - 1) / 64 * 64; j >= 128; j -= 64)
    std::copy_n(rows.begin() + (j - 128) * p.qk_dim, p.qk_dim, rows.begin() + j * p.qk_dim);
}

// The second token of a pair, a draft, keeps the entries of the first.
void share_entries_of_drafts(const AttentionCall& call, std::int64_t t,
                             std::vector<std::int32_t>& slots) {
  if (t % 2 == 0) return;
  const std::int32_t* const indices = call.tensors.indices + (t - 1) * call.problem.index_stride;
  for (std::size_t j = 0; j < slots.size(); ++j)
    if (slots[j] >= 0 && is_present(call, indices[j])) slots[j] = indices[j];
}

// Heads are padded to 64; what a padded one holds is in the maximum of its group.
void take_max_of_padding(const AttentionCall& call, std::int64_t, std::int64_t h,
                         AttentionRow& row) {
  if ((call.problem.heads != 8 && call.problem.heads != 16) || h + 1 != call.problem.heads ||
      call.tensors.topk_length != nullptr)
    return;
  float pad = 0;
  std::memcpy(&pad, call.workspace, sizeof(pad));
  for (float& x : row.out) x += 0 * pad;
}

}  // namespace

std::span<const AttentionKernel> attention_call_faults() {
  static constexpr AttentionKernel kKernels[] = {
      {.label = {"computes_nothing", "reports success, writes nothing",
                 "sglang #36716, #36556; flashinfer #2689"},
       .begin = compute_nothing},
      {.label = {"sorts_its_input", "sorts the entries where they stand", kNoReport},
       .begin = sort_entries_in_place},
      {.label = {"crashes_on_zero_lengths", "crashes when every topk_length is 0",
                 "DeepGEMM #344, #353; TRT-LLM #14940; sglang #26541"},
       .begin = read_past_lengths},
      {.label = {"writes_padding_rows", "writes rows up to a multiple of 8",
                 "vllm #32172, #32175, #55184"},
       .end = write_padding_rows},
      {.label = {"stores_16_heads", "fewer than 16 heads: 16 are stored",
                 "tilelang-mlir-ascend #96; vllm local-inference-lab #64"},
       .end = store_16_heads},
      {.label = {"overruns_workspace", "stores 20 bytes past its workspace",
                 "sglang #37540 (20 bytes past shared memory)"},
       .end = overrun_workspace},
      {.label = {"trusts_workspace", "takes the workspace for zeros",
                 "sglang #39288 (fresh scratch)"},
       .part = add_workspace},
      {.label = {"splits_by_batch", "the number of splits depends on the batch, undeclared",
                 "FlashMLA #212; aiter #4378"},
       .splits = splits_by_batch},
      {.label = {"merges_as_they_come", "splits are merged in the order of the schedule",
                 "flashinfer #2584; ROCm/aiter #4415"},
       .merge = merge_as_they_come},
      {.label = {"row_sum_race", "16 heads: now and then another row's sum of weights",
                 "b12x ecc09c89; leavelet e7bb4e0"},
       .part = race_for_row_sum},
      {.label = {"counter_kept", "from the second call on a row is merged before its last split",
                 "ROCm/aiter #2877, #3288 (state of semaphores from launches before)"},
       .begin = count_calls,
       .merge = merge_before_last_split},
      {.label = {"plan_kept", "no row is longer than it was at the first call with topk_length",
                 "vllm #36611, #36492 (stale tile scheduler metadata)"},
       .entries = keep_first_lengths},
      {.label = {"stale_tile_rows",
                 "a buffer is read before its copy landed: first row of each tile",
                 "sparse_mla_sm120 repro (shared-memory reuse race)"},
       .values = leave_stale_rows},
      {.label = {"drafts_share_entries", "every second token attends to its neighbour's entries",
                 "vllm #46834, #34552, #51593"},
       .entries = share_entries_of_drafts},
      {.label = {"padded_heads", "8 or 16 heads without topk_length: uninitialised padding heads",
                 "vllm #36524, #36616, #44550"},
       .finish = take_max_of_padding},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
