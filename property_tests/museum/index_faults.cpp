// Faults of index scores, and of the selection fused with them.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "property_tests/museum/element_type.h"
#include "property_tests/museum/index_kernel.h"
#include "reference/operators/views.h"

namespace mlacheck::museum {

namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

std::size_t index_of(std::int64_t i) { return static_cast<std::size_t>(i); }

float without_relu(float weight, float dot) { return weight * dot; }
float relu_after_weight(float weight, float dot) { return std::max(0.0f, weight * dot); }
float unweighted(const IndexCall&, std::int64_t, std::int64_t) { return 1; }
float weight_of_first_token(const IndexCall& call, std::int64_t, std::int64_t h) {
  return call.tensors.weights[h];
}
float only_32_heads(const IndexCall& call, std::int64_t t, std::int64_t h) {
  return h < 32 ? call.tensors.weights[t * call.problem.heads + h] : 0;
}
float scaled_again(const IndexCall& call, std::int64_t t, std::int64_t h) {
  return call.tensors.weights[t * call.problem.heads + h] /
         std::sqrt(static_cast<float>(call.problem.dim));
}

// Pairs (2i, 2i + 1) of the RoPE elements to (i, i + n / 2), on the query's side alone.
void halve_rope(const IndexCall& call, float* q) {
  const std::int64_t n = std::min<std::int64_t>(64, call.problem.dim) / 2 * 2;
  const std::vector<float> pairs(q, q + n);
  for (std::int64_t i = 0; i < n / 2; ++i) {
    q[i] = pairs[index_of(2 * i)];
    q[n / 2 + i] = pairs[index_of(2 * i + 1)];
  }
}

// The Hadamard transform, on the query's side alone.
void rotate_query(const IndexCall& call, float* q) {
  const std::int64_t n = call.problem.dim;
  if ((n & (n - 1)) != 0) return;
  for (std::int64_t half = 1; half < n; half *= 2)
    for (std::int64_t i = 0; i < n; ++i) {
      if ((i & half) != 0) continue;
      const float a = q[i], b = q[i + half];
      q[i] = a + b;
      q[i + half] = a - b;
    }
  for (std::int64_t i = 0; i < n; ++i) q[i] /= std::sqrt(static_cast<float>(n));
}

// fp8 products on some tensor cores add with 1 + 13 bits.
float dot_in_14_bits(const float* a, const float* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    int exponent = 0;
    const float mantissa = std::frexp(sum + a[i] * b[i], &exponent);
    sum = std::ldexp(std::trunc(mantissa * 0x1p14f) * 0x1p-14f, exponent);
  }
  return sum;
}

// A swizzle for rows of 128 elements.
float dot_of_swizzled(const float* a, const float* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[n < 128 ? i ^ (n > 8 ? 8 : 0) % n : i];
  return sum;
}

void from_0(const IndexCall&, std::int64_t, KeyRange& range) { range.begin = 0; }
void one_key_more(const IndexCall& call, std::int64_t, KeyRange& range) {
  range.end = std::min(range.end + 1, call.problem.key_count);
}
void first_rows_range(const IndexCall& call, std::int64_t, KeyRange& range) {
  range = range_of(call, 0);
}
void unmasked(const IndexCall& call, std::int64_t, KeyRange& range) {
  range = {0, call.problem.key_count};
}

std::int64_t without_table(const IndexCall&, std::int64_t, std::int64_t s) { return s; }
std::int64_t of_first_request(const IndexCall& call, std::int64_t, std::int64_t s) {
  return slot_of(call, 0, s);
}

void without_scale(const IndexCall& call, std::int64_t slot, float* key, float& scale) {
  read_key(call, slot, key, scale);
  scale = 1;
}
void scale_of_page(const IndexCall& call, std::int64_t slot, float* key, float& scale) {
  const std::int64_t size = call.problem.keys.page_size;
  std::vector<float> first(index_of(call.problem.dim));
  read_key(call, slot / size * size, first.data(), scale);
  float ignored = 1;
  read_key(call, slot, key, ignored);
}
// 132 bytes a key, its scale after its values.
void flat_layout(const IndexCall& call, std::int64_t slot, float* key, float& scale) {
  const mlacheck_cache& keys = call.problem.keys;
  read_key(call, slot, key, scale);
  if (keys.format != MLACHECK_CACHE_INDEX_PAGES) return;
  constexpr std::int64_t kScaleBytes = sizeof(float);
  const auto* const at = static_cast<const std::byte*>(call.tensors.cache) +
                         slot / keys.page_size * keys.page_stride +
                         slot % keys.page_size * (keys.row_stride + kScaleBytes);
  load_row(at, element_type(keys.dtype), call.problem.dim, key);
  std::memcpy(&scale, at + keys.row_stride, sizeof(scale));
}
// The scales' offset has 32 bits, that of the values 64.
void wrapped_scales(const IndexCall& call, std::int64_t slot, float* key, float& scale) {
  const mlacheck_cache& keys = call.problem.keys;
  read_key(call, slot, key, scale);
  if (keys.format != MLACHECK_CACHE_INDEX_PAGES) return;
  const auto offset = static_cast<std::uint32_t>(
      slot / keys.page_size * keys.page_stride + keys.page_size * keys.row_stride +
      slot % keys.page_size * static_cast<std::int64_t>(sizeof(scale)));
  std::memcpy(&scale, static_cast<const std::byte*>(call.tensors.cache) + offset, sizeof(scale));
}
void without_gap(const IndexCall& call, std::int64_t slot, float* key, float& scale) {
  mlacheck_index_scores_problem problem = call.problem;
  mlacheck_cache& keys = problem.keys;
  keys.page_stride = keys.page_size * (keys.row_stride + (keys.format == MLACHECK_CACHE_INDEX_PAGES
                                                              ? std::int64_t{sizeof(float)}
                                                              : 0));
  read_key({problem, call.tensors}, slot, key, scale);
}

bool lose_part_of_page(const IndexCall& call, std::int64_t, std::vector<float>& scores) {
  const std::int64_t size = call.problem.keys.page_size;
  const std::int64_t whole = call.problem.key_count / size * size;
  for (std::int64_t s = whole; whole > 0 && s < std::ssize(scores); ++s)
    if (scores[index_of(s)] > kMinusInf) scores[index_of(s)] = 0;
  return true;
}
bool leave_odd_row(const IndexCall& call, std::int64_t t, std::vector<float>&) {
  return call.problem.tokens % 2 == 0 || t + 1 < call.problem.tokens;
}
bool leave_past_65535(const IndexCall&, std::int64_t t, std::vector<float>&) { return t < 65535; }
bool in_bf16(const IndexCall&, std::int64_t, std::vector<float>& scores) {
  for (float& score : scores) score = round_to(DType::bf16, score);
  return true;
}

// ---- index_select ----

using Selected = std::vector<std::int32_t>;

void take_first(const TopKRow& row, Selected& selected) {
  for (std::int64_t j = 0; j < std::min(row.k, row.size()); ++j)
    selected[index_of(j)] = static_cast<std::int32_t>(row.begin + j);
}
void take_recent(const TopKRow& row, Selected& selected) {
  const std::int64_t count = std::min(row.k, row.size());
  for (std::int64_t j = 0; j < count; ++j)
    selected[index_of(j)] = static_cast<std::int32_t>(row.end - count + j);
}
void count_selected_from_begin(const TopKRow& row, Selected& selected) {
  for (std::int32_t& index : selected)
    if (index >= 0) index -= static_cast<std::int32_t>(row.begin);
}
// Chunks of 1024 keys are merged; the best of each later chunk is lost.
void lose_best_of_chunks(TopKRow& row) {
  std::int64_t chunk = 0;
  std::erase_if(row.above, [&](std::int32_t index) {
    const std::int64_t own = (index - row.begin) / 1024;
    const bool first_of_chunk = own > chunk;
    chunk = std::max(chunk, own);
    return first_of_chunk;
  });
}
// The indices of the layer, or step, before: of the call before this one.
void keep_last_calls(const TopKRow& row, Selected& selected) {
  static Selected last;
  if (last.size() == selected.size() &&
      std::ranges::all_of(last, [&](std::int32_t i) { return i < row.end; }))
    last.swap(selected);
  else
    last = selected;
}

}  // namespace

std::span<const IndexKernel> index_scores_kernels() {
  static constexpr IndexKernel kKernels[] = {
      {.label = {"honest_index_scores", "nothing is", ""}},
      {.label = {"relu_missing", "negative products are not cut off",
                 "vllm-ascend #15759; 1bit-MONSTER #2418"},
       .term = without_relu},
      {.label = {"relu_after_weight", "max(0, weight * product), not weight * max(0, product)",
                 kNoReport},
       .term = relu_after_weight},
      {.label = {"head_weight_missing", "every head weighs 1", kNoReport}, .weight = unweighted},
      {.label = {"weights_of_first_token", "every token has the first one's head weights",
                 kNoReport},
       .weight = weight_of_first_token},
      {.label = {"only_32_heads", "heads from the 32nd on are lost", "vllm #50720, #56837"},
       .weight = only_32_heads},
      {.label = {"scaled_twice", "the softmax scale is applied to index scores", "tt-metal #47832"},
       .weight = scaled_again},
      {.label = {"index_rope_interleaved", "the query's RoPE part is half-split, the key's not",
                 "transformers #46842; ik_llama.cpp #2099; sglang #13530"},
       .query = halve_rope},
      {.label = {"hadamard_one_side", "the Hadamard transform of the query alone",
                 "vllm #55459; ATOM #1507; TRT-LLM #13061, #15158"},
       .query = rotate_query},
      {.label = {"accumulates_in_14_bits", "products are added with 1 + 13 bits",
                 "DeepSeek-V3 #197; SageAttention #287"},
       .dot = dot_in_14_bits},
      {.label = {"swizzle_of_128", "fewer than 128 elements are read as if swizzled for 128",
                 "DeepGEMM #379, #433"},
       .dot = dot_of_swizzled},
      {.label = {"range_begin_ignored", "a row's keys begin at 0", "vllm #56749"}, .range = from_0},
      {.label = {"one_key_too_many", "a row's range takes the key after it: no causality",
                 "ATOM #1379"},
       .range = one_key_more},
      {.label = {"range_of_first_row", "every row has the first one's range",
                 "b12x f9dffc52; DeepGEMM #344"},
       .range = first_rows_range},
      {.label = {"unmasked", "scores outside the range, declared as -inf", "tokenspeed #1689"},
       .range = unmasked},
      {.label = {"masks_unasked", "-inf outside the range where nothing is to be written there",
                 kNoReport},
       .always_masks = true},
      {.label = {"block_table_ignored", "logical keys are taken for slots", "vllm #53906"},
       .slot = without_table},
      {.label = {"table_of_first_token", "every token has the first one's row of the block table",
                 "DeepGEMM #344; sglang #26541"},
       .slot = of_first_request},
      {.label = {"key_scale_missing", "keys are not scaled", kNoReport}, .read = without_scale},
      {.label = {"key_scale_of_page", "a page's first scale serves all its keys", "vllm #52109"},
       .read = scale_of_page},
      {.label = {"scale_offset_wraps", "the offset of a key's scale wraps at 2^32",
                 "lightseekorg/tokenspeed #1689"},
       .read = wrapped_scales},
      {.label = {"keys_in_flat_layout", "a scale after each key, not after all of a page",
                 "vllm #52109 (flat and shuffled layouts)"},
       .read = flat_layout},
      {.label = {"key_page_gap_ignored", "pages of keys are taken to follow one another",
                 "b12x #20, #45, f06881a2"},
       .read = without_gap},
      {.label = {"partial_page_zero", "keys of the last, partial page score 0",
                 "vllm #52109 (scores exactly 0)"},
       .finish = lose_part_of_page},
      {.label = {"odd_row_lost", "an odd number of rows: the last one is not written",
                 "DeepGEMM #324, #314"},
       .finish = leave_odd_row},
      {.label = {"index_grid_limit", "rows from 65,535 on are never launched",
                 "ik_llama.cpp #2286; flashinfer #3125"},
       .finish = leave_past_65535},
      {.label = {"scores_in_bf16", "scores are rounded to bf16, declared as f32", kNoReport},
       .finish = in_bf16},
  };
  return kKernels;
}

std::span<const IndexKernel> index_select_kernels() {
  static constexpr IndexKernel kKernels[] = {
      {.label = {"honest_index_select", "nothing is", ""}},
      {.label = {"takes_the_first", "the first k keys: sparse attention never active",
                 "llama.cpp #20363; vllm #35021"},
       .select = {.finish = take_first}},
      {.label = {"takes_the_recent", "the last k keys: a sliding window", "vllm #45895"},
       .select = {.finish = take_recent}},
      {.label = {"select_relative", "indices count from the row's begin, declared as absolute",
                 "vllm #56749"},
       .select = {.finish = count_selected_from_begin}},
      {.label = {"selects_by_bf16", "members are chosen by scores in bf16, declared as f32",
                 "vllm #51782; sglang #17747"},
       .finish = in_bf16},
      {.label = {"chunk_loses_best", "the best key of each later chunk of 1024 is lost",
                 "vllm #55122"},
       .select = {.pick = lose_best_of_chunks}},
      {.label = {"stale_selection", "the selection of the row before",
                 "ik_llama.cpp #2063; vllm #46506, #48528"},
       .select = {.finish = keep_last_calls}},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
