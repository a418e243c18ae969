/* A whole kernel library in C99: sparse_attention over rows of bf16 with fp32 sums, on the host.
 *
 *     cc -std=c99 -O2 -fPIC -shared -I INCLUDE minimal_kernel.c -o libminimal.so -lm
 *     mlacheck run 'mlacheck1 op=sparse_attention fill=census' --kernel ./libminimal.so
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mlacheck_kernel.h"

static float from_bf16(uint16_t bits) {
  const uint32_t word = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &word, sizeof x);
  return x;
}

static uint16_t to_bf16(float x) { /* to nearest, ties to even */
  uint32_t word;
  memcpy(&word, &x, sizeof word);
  return isnan(x) ? 0x7fff : (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

static int supports(const mlacheck_problem* problem, char* why, size_t why_size) {
  const mlacheck_sparse_attention_problem* p = &problem->u.sparse_attention;
  const int bf16 = p->kv.format == MLACHECK_CACHE_ROWS && p->kv.dtype == MLACHECK_BF16 &&
                   p->q_dtype == MLACHECK_BF16 && p->out_dtype == MLACHECK_BF16;
  if (!bf16) snprintf(why, why_size, "q, cache and out: plain rows of bf16 only");
  return bf16;
}

/* The logits of a row, then the sums of its values. */
static int workspace_size(const mlacheck_problem* problem, uint64_t* bytes) {
  const mlacheck_sparse_attention_problem* p = &problem->u.sparse_attention;
  *bytes = (uint64_t)(p->topk + p->v_dim) * sizeof(float);
  return 0;
}

static const uint16_t* cache_row(const mlacheck_cache* kv, const void* cache, int64_t slot) {
  return (const uint16_t*)((const char*)cache + slot / kv->page_size * kv->page_stride +
                           slot % kv->page_size * kv->row_stride);
}

static void attend(const mlacheck_sparse_attention_problem* p, const mlacheck_tensors* x,
                   float* logits, float* sums, int64_t t, int64_t h) {
  const uint16_t* q = (const uint16_t*)x->q + t * p->q_token_stride + h * p->q_head_stride;
  const int32_t* indices = x->indices + t * p->index_stride;
  const int64_t length = x->topk_length ? x->topk_length[t] : p->topk;
  const int64_t row = t * p->heads + h;
  uint16_t* out = (uint16_t*)x->out + row * p->v_dim;
  float max = -INFINITY, weight_sum = 0, factor = 1;
  for (int64_t j = 0; j < length; ++j) {
    if (indices[j] < 0 || indices[j] >= p->kv.slots) continue; /* absent */
    const uint16_t* key = cache_row(&p->kv, x->cache, indices[j]);
    float dot = 0;
    for (int64_t c = 0; c < p->qk_dim; ++c) dot += from_bf16(q[c]) * from_bf16(key[c]);
    logits[j] = dot * p->sm_scale;
    if (!isnan(max) && !(logits[j] <= max)) max = logits[j]; /* a NaN stays */
  }
  for (int64_t c = 0; c < p->v_dim; ++c) sums[c] = 0;
  for (int64_t j = 0; j < length && max != -INFINITY; ++j) {
    if (indices[j] < 0 || indices[j] >= p->kv.slots) continue;
    const uint16_t* value = cache_row(&p->kv, x->cache, indices[j]);
    const float weight = expf(logits[j] - max);
    weight_sum += weight;
    for (int64_t c = 0; c < p->v_dim; ++c) sums[c] += weight * from_bf16(value[c]);
  }
  const float lse = max == -INFINITY ? -INFINITY : max + logf(weight_sum);
  if (x->attn_sink) factor = 1 / (1 + expf(x->attn_sink[h] - lse));
  for (int64_t c = 0; c < p->v_dim; ++c)
    out[c] = max == -INFINITY ? 0 : to_bf16(sums[c] / weight_sum * factor);
  x->lse[row] = lse;
  if (x->max_logit) x->max_logit[row] = max;
}

static int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void* workspace,
               uint64_t workspace_bytes, void* stream, char* why, size_t why_size) {
  const mlacheck_sparse_attention_problem* p = &problem->u.sparse_attention;
  float* logits = workspace;
  for (int64_t t = 0; t < p->tokens; ++t)
    for (int64_t h = 0; h < p->heads; ++h) attend(p, tensors, logits, logits + p->topk, t, h);
  (void)workspace_bytes, (void)stream, (void)why, (void)why_size;
  return 0;
}

/* One accumulator, a term at a time, products rounded (or fused: a contract may be looser). */
#define SUM \
  { .block = 1, .order = MLACHECK_SUM_SEQUENTIAL, .rounds_terms = 1 }

static const mlacheck_kernel kernel = {
    .struct_size = sizeof(mlacheck_kernel),
    .op = MLACHECK_SPARSE_ATTENTION,
    .name = "minimal",
    .description = "bf16 rows, fp32 sums, one row after the other",
    .memory = MLACHECK_HOST,
    .conventions = {.struct_size = sizeof(mlacheck_conventions),
                    .lse_base = MLACHECK_LSE_NATURAL,
                    .lse_empty = MLACHECK_EMPTY_MINUS_INF},
    .contract = {.struct_size = sizeof(mlacheck_contract),
                 .qk = SUM,
                 .pv = SUM,
                 .weight_sum = SUM,
                 .weight_dtype = MLACHECK_F32,
                 .max_splits = 1,
                 .partial_dtype = MLACHECK_F32,
                 .batch_invariant = 1,
                 .run_deterministic = 1,
                 .weight_scale = 1,
                 .exp_error = 0x1p-22f,
                 .exp_underflow = 0x1p-126f,
                 .log_error = 0x1p-22f},
    .supports = supports,
    .workspace_size = workspace_size,
    .run = run,
};

MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(uint32_t abi_version);
MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(uint32_t abi_version) {
  static const mlacheck_kernel* const kernels[] = {&kernel};
  static const mlacheck_library library = {.struct_size = sizeof(mlacheck_library),
                                           .abi_version = MLACHECK_ABI_VERSION,
                                           .name = "minimal",
                                           .version = "1",
                                           .kernels = kernels,
                                           .kernel_count = 1};
  return abi_version == MLACHECK_ABI_VERSION ? &library : NULL;
}
