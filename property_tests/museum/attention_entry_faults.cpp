// Faults of which entries a row attends: absent ones, lengths, empty rows.

#include <algorithm>
#include <limits>

#include "property_tests/museum/attention_kernel.h"

namespace mlacheck::museum {

namespace {

using Slots = std::vector<std::int32_t>;

// Entry j as it stands, and how many of the row's count.
std::int32_t entry(const AttentionCall& call, std::int64_t t, std::int64_t j) {
  return call.tensors.indices[t * call.problem.index_stride + j];
}
std::int64_t length_of(const AttentionCall& call, std::int64_t t) {
  return call.tensors.topk_length != nullptr ? call.tensors.topk_length[t] : call.problem.topk;
}

// The present ones of the first `count` entries.
void attend_first(const AttentionCall& call, std::int64_t t, std::int64_t count, Slots& slots) {
  for (std::int64_t j = 0; j < std::ssize(slots); ++j) {
    const std::int32_t slot = entry(call, t, j);
    slots[static_cast<std::size_t>(j)] = j < count && is_present(call, slot) ? slot : -1;
  }
}

void ignore_length_of_many(const AttentionCall& call, std::int64_t t, Slots& slots) {
  if (call.problem.tokens > 64) attend_first(call, t, call.problem.topk, slots);
}

void take_first_rows_length(const AttentionCall& call, std::int64_t t, Slots& slots) {
  attend_first(call, t, length_of(call, 0), slots);
}

void round_length_up(const AttentionCall& call, std::int64_t t, Slots& slots) {
  attend_first(call, t, (length_of(call, t) + 15) / 16 * 16, slots);
}

// Slot 0 wherever there is none, in rows that have a key.
void clamp_to_slot_0(const AttentionCall& call, std::int64_t, Slots& slots) {
  if (call.problem.kv.slots == 0) return;
  if (std::ranges::all_of(slots, [](std::int32_t slot) { return slot < 0; })) return;
  std::ranges::replace(slots, -1, 0);
}

void clamp_large(const AttentionCall& call, std::int64_t t, Slots& slots) {
  if (call.problem.kv.slots == 0) return;
  for (std::int64_t j = 0; j < std::min(length_of(call, t), std::ssize(slots)); ++j)
    if (entry(call, t, j) >= call.problem.kv.slots)
      slots[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(call.problem.kv.slots - 1);
}

void wrap_negative(const AttentionCall& call, std::int64_t t, Slots& slots) {
  if (call.problem.kv.slots == 0) return;
  for (std::int64_t j = 0; j < std::min(length_of(call, t), std::ssize(slots)); ++j)
    if (entry(call, t, j) < -1)
      slots[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(
          static_cast<std::uint32_t>(entry(call, t, j)) % call.problem.kv.slots);
}

void stop_at_first_absent(const AttentionCall&, std::int64_t, Slots& slots) {
  std::fill(std::ranges::find(slots, -1), slots.end(), -1);
}

// As many entries as are present, from the first on; -1 among them is slot 0.
void count_then_take_first(const AttentionCall& call, std::int64_t t, Slots& slots) {
  const auto present = std::ranges::count_if(slots, [](std::int32_t slot) { return slot >= 0; });
  for (std::int64_t j = 0; j < std::ssize(slots); ++j)
    slots[static_cast<std::size_t>(j)] =
        j >= present ? -1 : (is_present(call, entry(call, t, j)) ? entry(call, t, j) : 0);
}

void drop_odd_width(const AttentionCall& call, std::int64_t, Slots& slots) {
  const std::int64_t whole = call.problem.topk / 64 * 64;
  if (whole > 0) std::fill(slots.begin() + whole, slots.end(), -1);
}

void drop_last_of_full_row(const AttentionCall&, std::int64_t, Slots& slots) {
  if (std::ssize(slots) >= 512 && std::ranges::find(slots, -1) == slots.end()) slots.back() = -1;
}

void take_duplicates_once(const AttentionCall&, std::int64_t, Slots& slots) {
  Slots seen;
  for (std::int32_t& slot : slots) {
    if (std::ranges::find(seen, slot) != seen.end())
      slot = -1;
    else
      seen.push_back(slot);
  }
}

void take_slot_0_for_null(const AttentionCall&, std::int64_t, Slots& slots) {
  std::ranges::replace(slots, 0, -1);
}

void lose_last_slot(const AttentionCall& call, std::int64_t, Slots& slots) {
  std::ranges::replace(slots, static_cast<std::int32_t>(call.problem.kv.slots - 1), -1);
}

// The finite sentinel of raw products that stands for an absent entry.
void mask_with_5e4(const AttentionCall& call, std::vector<float>& logits) {
  std::ranges::replace(logits, -kInfinity, -5e4f * call.problem.sm_scale);
}

// -1e30, scaled like a logit, and then compared with -1e29: below a scale of 0.0693 an empty row
// seems to have keys.
void mask_with_scaled_1e30(const AttentionCall& call, std::vector<float>& logits) {
  constexpr float kLog2e = 1.442695f;
  const float masked = -1e30f * (call.problem.sm_scale * kLog2e);
  const bool empty = std::ranges::all_of(logits, [](float x) { return x == -kInfinity; });
  if (empty && masked > -1e29f) std::ranges::replace(logits, -kInfinity, masked / kLog2e);
}

// exp2(0) = 1 for each entry of a row without keys.
void attend_empty_row(const AttentionCall&, std::vector<float>& logits) {
  if (std::ranges::all_of(logits, [](float x) { return x == -kInfinity; }))
    std::ranges::fill(logits, 0.0f);
}

bool is_empty(const AttentionRow& row) { return row.max_logit == -kInfinity; }

void leave_empty_row(const AttentionCall&, std::int64_t, std::int64_t, AttentionRow& row) {
  row.stored = !is_empty(row);
}
void divide_by_zero(const AttentionCall&, std::int64_t, std::int64_t, AttentionRow& row) {
  if (is_empty(row)) std::ranges::fill(row.out, kNan);
}
void label_empty_row_plus_inf(const AttentionCall&, std::int64_t, std::int64_t, AttentionRow& row) {
  if (is_empty(row)) row.lse = kInfinity;
}

// An index past topk_length keeps its row: 0 times what lies there.
void multiply_past_length(const AttentionCall& call, std::int64_t t, std::int64_t,
                          AttentionRow& row) {
  std::vector<float> past(static_cast<std::size_t>(call.problem.qk_dim));
  for (std::int64_t j = length_of(call, t); j < call.problem.topk; ++j) {
    if (is_empty(row) || !is_present(call, entry(call, t, j))) continue;
    read_row(call, entry(call, t, j), past.data());
    for (std::size_t c = 0; c < row.out.size(); ++c) row.out[c] += 0.0f * past[c];
  }
}

}  // namespace

std::span<const AttentionKernel> attention_entry_faults() {
  static constexpr AttentionKernel kKernels[] = {
      {.label = {"prefill_ignores_length", "more than 64 tokens: entries past topk_length attend",
                 "flashinfer #5095, #5075"},
       .entries = ignore_length_of_many},
      {.label = {"one_length_for_all", "the first row's topk_length is every row's",
                 "b12x f9dffc52, 2aef91eb"},
       .entries = take_first_rows_length},
      {.label = {"length_rounded_up", "topk_length is rounded up to a multiple of 16",
                 "flashinfer #5095 (lanes of the last tile past topk_length)"},
       .entries = round_length_up},
      {.label = {"absent_as_slot_0", "an absent entry is clamped to slot 0", "vllm #53906, #54359"},
       .entries = clamp_to_slot_0},
      {.label = {"large_index_clamped", "an index past the cache is its last slot",
                 "FlashMLA tests (random invalid indices)"},
       .entries = clamp_large},
      {.label = {"only_minus_one_is_absent", "a negative index other than -1 wraps",
                 "FlashMLA tests (invalid indices down to INT_MIN)"},
       .entries = wrap_negative},
      {.label = {"stops_at_first_absent", "entries after the first absent one are lost",
                 "cudnn-frontend #405; tilelang example"},
       .entries = stop_at_first_absent},
      {.label = {"valid_count_as_prefix", "present entries are counted, then the first ones taken",
                 "vllm FA3 sparse adapter"},
       .entries = count_then_take_first},
      {.label = {"odd_width_loses_tail",
                 "top-k no multiple of 64: the last K % 64 entries are lost",
                 "vllm #57578; sglang #33134"},
       .entries = drop_odd_width},
      {.label = {"full_row_loses_last", "512 entries or more, none absent: the last one is lost",
                 kNoReport},
       .entries = drop_last_of_full_row},
      {.label = {"duplicates_once", "a repeated index attends once, undeclared",
                 "tilelang scatter mask; llama.cpp mask"},
       .entries = take_duplicates_once},
      {.label = {"slot_0_is_null", "slot 0 is taken for the null block",
                 "vLLM block manager (null block 0)"},
       .entries = take_slot_0_for_null},
      {.label = {"last_slot_lost", "the cache's last slot is taken for absent", kNoReport},
       .entries = lose_last_slot},
      {.label = {"zero_times_nan", "an absent entry multiplies slot 0's value by 0",
                 "sglang #39288"},
       .reads_masked = true},
      {.label = {"past_length_times_0", "a valid index past topk_length multiplies its value by 0",
                 "FlashMLA docs (NaN keys past topk_length)"},
       .finish = multiply_past_length},
      {.label = {"leading_tile_masked", "a first tile without a key: -inf - -inf is NaN",
                 "vllm #48364, #48366"},
       .guards_empty = false},
      {.label = {"sentinel_5e4", "absent entries have the raw product -5e4, not -inf",
                 "flashinfer #4451, #4452, #4267, #4450; fix #4401"},
       .logits = mask_with_5e4},
      {.label = {"sentinel_scaled",
                 "below sm_scale 0.0693 the scaled sentinel of an empty row is a key",
                 "flashinfer decode_dsv3_2_kernel.cuh"},
       .logits = mask_with_scaled_1e30},
      {.label = {"empty_row_attends", "a row without keys has weight exp2(0) for each entry",
                 "b12x fa118435"},
       .logits = attend_empty_row},
      {.label = {"empty_row_stale", "a row without keys is not written", "vllm #44550; aiter"},
       .finish = leave_empty_row},
      {.label = {"empty_row_nan", "a row without keys is divided by its sum of 0",
                 "vllm #36524, #36616"},
       .finish = divide_by_zero},
      {.label = {"empty_lse_plus_inf", "lse of a row without keys is +inf, declared as -inf",
                 "FlashMLA and FlashInfer conventions; cudnn-frontend #793"},
       .finish = label_empty_row_plus_inf},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
