// Faults of addresses and layouts of attention.

#include <algorithm>
#include <bit>
#include <cstring>

#include "property_tests/museum/attention_kernel.h"
#include "property_tests/museum/element_type.h"
#include "reference/operators/kv_record_656.h"
#include "reference/operators/views.h"

namespace mlacheck::museum {

namespace {

// The row as a kernel finds it that takes the cache for another one.
void read_as(const AttentionCall& call, const mlacheck_cache& cache, std::int64_t slot,
             float* row) {
  mlacheck_sparse_attention_problem problem = call.problem;
  problem.kv = cache;
  read_row({problem, call.tensors, call.workspace}, slot, row);
}

void without_gap(const AttentionCall& call, std::int64_t slot, float* row) {
  mlacheck_cache cache = call.problem.kv;
  cache.page_stride = cache.page_size * cache.row_stride;
  read_as(call, cache, slot, row);
}

void without_pad(const AttentionCall& call, std::int64_t slot, float* row) {
  mlacheck_cache cache = call.problem.kv;
  if (cache.format == MLACHECK_CACHE_ROWS)
    cache.row_stride =
        call.problem.qk_dim * static_cast<std::int64_t>(size_of(element_type(cache.dtype)));
  read_as(call, cache, slot, row);
}

// The offset of a row's page has 32 bits.
void by_32_bit_offset(const AttentionCall& call, std::int64_t slot, float* row) {
  mlacheck_cache cache = call.problem.kv;
  const std::int64_t page = slot / cache.page_size;
  const auto wrapped = static_cast<std::uint32_t>(page * cache.page_stride);
  mlacheck_tensors tensors = call.tensors;
  tensors.cache = static_cast<const std::byte*>(tensors.cache) + wrapped;
  mlacheck_sparse_attention_problem problem = call.problem;
  problem.kv.slots = cache.page_size;
  read_row({problem, tensors, call.workspace}, slot % cache.page_size, row);
}

// The offset of a row's page in elements is an int.
void by_int_offset(const AttentionCall& call, std::int64_t slot, float* row) {
  const mlacheck_cache& cache = call.problem.kv;
  const std::int64_t bytes = cache.format == MLACHECK_CACHE_ROWS
                                 ? static_cast<std::int64_t>(size_of(element_type(cache.dtype)))
                                 : 1;
  const std::int64_t offset = slot / cache.page_size * cache.page_stride / bytes;
  mlacheck_tensors tensors = call.tensors;
  tensors.cache =
      static_cast<const std::byte*>(tensors.cache) + static_cast<std::int32_t>(offset) * bytes;
  mlacheck_sparse_attention_problem problem = call.problem;
  problem.kv.slots = cache.page_size;
  read_row({problem, tensors, call.workspace}, slot % cache.page_size, row);
}

// page = slot >> bits, row = slot & mask, for a page size that is no power of two.
void by_shift(const AttentionCall& call, std::int64_t slot, float* row) {
  mlacheck_cache cache = call.problem.kv;
  const auto size = std::bit_floor(static_cast<std::uint64_t>(cache.page_size));
  cache.page_size = static_cast<std::int64_t>(size);
  const std::int64_t pages = (call.problem.kv.slots - 1) / call.problem.kv.page_size + 1;
  read_as(call, cache, std::min(slot, pages * cache.page_size - 1), row);
}

// 64 slots a page, the stride as it is.
void by_64(const AttentionCall& call, std::int64_t slot, float* row) {
  mlacheck_cache cache = call.problem.kv;
  const std::int64_t pages = (cache.slots - 1) / cache.page_size + 1;
  if (pages == 1) return read_row(call, slot, row);
  cache.page_size = std::min<std::int64_t>(cache.page_size, 64);
  read_as(call, cache, std::min(slot, pages * cache.page_size - 1), row);
}

void with_first_scale(const AttentionCall& call, std::int64_t slot, float* row) {
  read_row(call, slot, row);
  if (call.problem.kv.format != MLACHECK_CACHE_FP8_656) return;
  float scales[4];
  std::memcpy(scales, row_of_cache(call, slot) + kv_record_656::kLatent, sizeof(scales));
  for (std::int64_t d = kv_record_656::kTile; d < kv_record_656::kLatent; ++d)
    row[d] = row[d] / scales[d / kv_record_656::kTile] * scales[0];
}

template <kv_record_656::Reader Reader>
void with_reader(const AttentionCall& call, std::int64_t slot, float* row) {
  const mlacheck_cache& kv = call.problem.kv;
  if (kv.format != MLACHECK_CACHE_FP8_656) return read_row(call, slot, row);
  const std::int32_t one[] = {static_cast<std::int32_t>(slot)};
  kv_record_656::read_cache(static_cast<const std::byte*>(call.tensors.cache),
                            {kv.slots, kv.page_size, kv.page_stride}, one, Reader,
                            {row, static_cast<std::size_t>(kv_record_656::kDim)});
}

void read_query_again(const AttentionCall& call, std::int64_t t, std::int64_t h, float* q) {
  const auto& p = call.problem;
  const DType dtype = element_type(p.q_dtype);
  load_row(
      static_cast<const std::byte*>(call.tensors.q) +
          (t * p.q_token_stride + h * p.q_head_stride) * static_cast<std::int64_t>(size_of(dtype)),
      dtype, p.qk_dim, q);
}

void wrap_heads_at_64(const AttentionCall& call, std::int64_t t, std::int64_t h, float* q) {
  if (h >= 64) read_query_again(call, t, h - 64, q);
}

// The values' last elements for their first ones, as where RoPE comes first.
void take_values_after_rope(const AttentionCall& call, std::vector<float>& rows) {
  const auto& p = call.problem;
  for (auto row = rows.begin(); row != rows.end(); row += p.qk_dim)
    std::copy(row + (p.qk_dim - p.v_dim), row + p.qk_dim, row);
}

void keep_2048(const AttentionCall&, std::int64_t, std::vector<std::int32_t>& slots) {
  if (slots.size() > 2048) std::fill(slots.begin() + 2048, slots.end(), -1);
}

void leave_rows_past_65535(const AttentionCall&, std::int64_t t, std::int64_t, AttentionRow& row) {
  row.stored = t < 65535;
}

}  // namespace

std::span<const AttentionKernel> attention_layout_faults() {
  static constexpr AttentionKernel kKernels[] = {
      {.label = {"page_gap_ignored", "pages are taken to follow one another",
                 "b12x 4448acf9; b12x #20, #45"},
       .read = without_gap},
      {.label = {"row_pad_ignored", "rows are taken to follow one another",
                 "leavelet/lucifer a003afc"},
       .read = without_pad},
      {.label = {"page_size_by_shift", "a page size that is no power of two is divided by shifts",
                 "vllm #53963"},
       .read = by_shift},
      {.label = {"page_size_64", "64 slots a page, whatever is asked", "vllm #53963, #57932"},
       .read = by_64},
      {.label = {"offset_of_32_bits", "a page's offset in bytes wraps at 2^32",
                 "flashinfer #3136, #3130; vllm #52109"},
       .read = by_32_bit_offset},
      {.label = {"offset_is_int", "a page's offset in elements is an int: negative from 2^31 on",
                 "b12x #20, #45, f06881a2; llama.cpp fattn-mma-kq-mask-integer-overflow"},
       .read = by_int_offset},
      {.label = {"one_scale_a_record", "a record's first scale serves all four tiles",
                 "vllm #52109 (layout of scales)"},
       .read = with_first_scale},
      {.label = {"scale_as_e8m0", "a record's scale is read as a power of two, declared as fp32",
                 "FlashMLA #184, #192; b12x docs/mla_sm120_postmortem.md"},
       .read = with_reader<kv_record_656::Reader::e8m0_scale>},
      {.label = {"scale_as_bf16", "a record's scale is rounded to bf16, declared as fp32",
                 "vllm #49435"},
       .read = with_reader<kv_record_656::Reader::bf16_scale>},
      {.label = {"heads_wrap_at_64", "head h from 64 on has the query of head h - 64",
                 "vllm #50720, #56837"},
       .query = wrap_heads_at_64},
      {.label = {"value_after_rope", "values are the last elements of a row, not the first",
                 "vllm #52109 (layout mismatch)"},
       .values = take_values_after_rope},
      {.label = {"topk_over_2048", "entries past the 2048th are lost",
                 "sglang #33134; flashinfer #4336"},
       .entries = keep_2048},
      {.label = {"grid_limit", "rows from 65,535 on are never launched: stale output",
                 "sglang #34947; flashinfer #3125, #4536; FlashMLA #182, #173"},
       .finish = leave_rows_past_65535},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
