/* mlacheck_kernel.h: how mlacheck runs a kernel. C99, no dependency but <stdint.h> and <stddef.h>.
 *
 * A kernel library is a shared object that exports one function,
 *
 *     const mlacheck_library* mlacheck_kernel_library(uint32_t abi_version);
 *
 * and mlacheck runs it with `mlacheck run 'RECIPE' --kernel ./libmine.so`. What a kernel declares
 * here, it is held to: its conventions are translated, its numerics contract sets the width of the
 * admissible interval.
 *
 * Rules:
 *   - The caller owns all memory: tensors, workspace and outputs. Nothing is allocated in `run`.
 *   - Tensors and workspace begin at multiples of 256 bytes; what lies around them is not the
 *     kernel's. Inputs stay as they are.
 *   - Sizes of tensors are in the problem, addresses in the tensors; a problem alone decides
 *     support and workspace.
 *   - Every struct begins with its size, so that later versions can append fields; what a smaller
 *     size leaves out counts as 0. Structs inside a mlacheck_kernel stay as they are: their new
 *     fields stand at its end. Enums are int32_t.
 *   - Functions return 0 on success. They may be called from any thread, one call at a time.
 *   - Strides are in elements, but for cache rows, whose strides are in bytes.
 */
#ifndef MLACHECK_KERNEL_H
#define MLACHECK_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLACHECK_ABI_VERSION 1u

#if defined(_WIN32)
#define MLACHECK_EXPORT __declspec(dllexport)
#else
#define MLACHECK_EXPORT __attribute__((visibility("default")))
#endif

typedef enum mlacheck_operator {
  MLACHECK_SPARSE_ATTENTION = 1,
  MLACHECK_INDEX_SCORES = 2,
  MLACHECK_TOP_K = 3,
  MLACHECK_INDEX_SELECT = 4, /* index_scores and top_k in one, without the [T, N] matrix */
  MLACHECK_MAP_SLOTS = 5
} mlacheck_operator;

typedef enum mlacheck_dtype {
  MLACHECK_F32 = 1,
  MLACHECK_F16 = 2,
  MLACHECK_BF16 = 3,
  MLACHECK_E4M3 = 4 /* float8_e4m3fn */
} mlacheck_dtype;

typedef enum mlacheck_cache_format {
  MLACHECK_CACHE_ROWS = 1,    /* elements of dtype, nothing else */
  MLACHECK_CACHE_FP8_656 = 2, /* 512 e4m3, 4 fp32 scales, 64 bf16: 656 bytes a token */
  MLACHECK_CACHE_INDEX_PAGES =
      3 /* all e4m3 keys of a page, then its fp32 scales: 132 bytes a token */
} mlacheck_cache_format;

typedef enum mlacheck_memory {
  MLACHECK_HOST = 1,  /* tensors in host memory; the stream is NULL */
  MLACHECK_DEVICE = 2 /* tensors in device memory; the stream is a cudaStream_t */
} mlacheck_memory;

/* ---- Problems: everything about a call but its addresses ---- */

/* Rows of a cache by physical slot: page = slot / page_size, row = slot % page_size. */
typedef struct mlacheck_cache {
  int32_t format; /* mlacheck_cache_format */
  int32_t dtype;  /* mlacheck_dtype of a value */
  int64_t slots;  /* N: slots that exist; nothing past them is read */
  int64_t page_size;
  int64_t page_stride; /* bytes */
  int64_t row_stride;  /* bytes, within a page */
} mlacheck_cache;

/* q [tokens, heads, qk_dim], kv [slots, qk_dim], indices int32 [tokens, topk]
 *   -> out [tokens, heads, v_dim], lse and max_logit fp32 [tokens, heads].
 * For token t and head h, over the present entries j < topk_length[t] (topk where there is none)
 * with 0 <= indices[t, j] < slots:
 *
 *   s_j       = sm_scale * dot(q[t, h, :], kv[indices[t, j], 0 : qk_dim])
 *   max_logit = max_j s_j                       scaled, natural units
 *   lse       = ln sum_j exp(s_j)               over the keys alone
 *   out       = sum_j exp(s_j - lse) * kv[indices[t, j], 0 : v_dim]
 *               * 1 / (1 + exp(attn_sink[h] - lse))  where there is a sink
 *
 * An absent entry influences no bit and is never dereferenced. Duplicates count as often as they
 * stand. A row without present entries: out 0, lse and max_logit -inf. Any size may be 0 but heads.
 * The conventions below say what else lse may be.
 *   a NaN score            out, lse and max_logit are NaN
 *   else a +inf score      max_logit +inf, out and lse NaN
 *   else all scores -inf   as a row without present entries
 *   else a -inf score      weighs 0; an Inf or NaN in its value makes that column of out NaN
 *   attn_sink +inf, -inf   scales out by 0, by 1 */
typedef struct mlacheck_sparse_attention_problem {
  int64_t tokens;
  int64_t heads;
  int64_t topk;
  int64_t qk_dim; /* 576 */
  int64_t v_dim;  /* 512: the first elements of a row are its value */
  int64_t q_token_stride;
  int64_t q_head_stride;
  int64_t index_stride; /* from row to row of indices */
  mlacheck_cache kv;
  int32_t q_dtype;
  int32_t out_dtype;
  float sm_scale; /* natural units, always explicit */
  int32_t has_topk_length;
  int32_t has_attn_sink;
  int32_t wants_max_logit;
  int32_t batch_invariant; /* a row's bits may depend on that row alone */
  int32_t reserved;
} mlacheck_sparse_attention_problem;

/* q [tokens, heads, dim], weights fp32 [tokens, heads], keys
 *   -> scores_out fp32 [tokens, score_stride], of each row the first key_count:
 *      key scale * sum_h weights * max(0, q . key) for keys in [range_begin, range_end),
 *      -inf outside, or with unmasked_scores of mlacheck_problem what stood there before. */
typedef struct mlacheck_index_scores_problem {
  int64_t tokens;
  int64_t heads;
  int64_t dim; /* 128 */
  int64_t key_count;
  int64_t q_token_stride;
  int64_t q_head_stride;
  int64_t score_stride;       /* from row to row of scores_out */
  int64_t block_table_stride; /* columns of a row of block_table */
  mlacheck_cache keys;
  int32_t q_dtype;
  int32_t has_block_table; /* else the logical key is the slot; block size = keys.page_size */
  int32_t has_request;     /* row of block_table for each token; else row 0 */
  int32_t has_key_range;   /* range_begin and range_end [tokens]; else 0 and key_count */
} mlacheck_index_scores_problem;

/* scores_in fp32 [rows, score_stride], of each row the first `columns`
 *   -> selected int32 [rows, k], ascending, padded with -1:
 *      the min(k, n) largest of [range_begin, range_end).
 * Ties go to the lowest index, -0 equals +0, NaN is chosen only when nothing else is left. */
typedef struct mlacheck_top_k_problem {
  int64_t rows;
  int64_t columns;
  int64_t k;
  int64_t score_stride;
  int32_t has_row_range; /* range_begin and range_end [rows]; else 0 and columns */
  int32_t reserved;
} mlacheck_top_k_problem;

typedef struct mlacheck_index_select_problem {
  mlacheck_index_scores_problem scores;
  int64_t k;
  int32_t to_slots; /* map the selected logical keys to slots through block_table */
  int32_t reserved;
} mlacheck_index_select_problem;

/* positions int32 [count] -> slots int32 [count] through one row of a block table; -1 stays -1. */
typedef struct mlacheck_map_slots_problem {
  int64_t count;
  int64_t blocks;
  int64_t block_size;
} mlacheck_map_slots_problem;

typedef struct mlacheck_problem {
  uint32_t struct_size;
  int32_t op; /* mlacheck_operator: which member of u */
  union {
    mlacheck_sparse_attention_problem sparse_attention;
    mlacheck_index_scores_problem index_scores;
    mlacheck_top_k_problem top_k;
    mlacheck_index_select_problem index_select;
    mlacheck_map_slots_problem map_slots;
    int64_t room[40];
  } u;

  /* Appended. Of index_scores: */
  int32_t unmasked_scores; /* 1: nothing is written outside a row's range; 0: -inf */
  int32_t reserved;
} mlacheck_problem;

/* Whether a caller's problem has an appended field. */
#define MLACHECK_PROBLEM_HAS(problem, field) \
  ((problem)->struct_size >= offsetof(mlacheck_problem, field) + sizeof((problem)->field))

/* ---- Tensors: the addresses of a call ---- */

typedef struct mlacheck_tensors {
  uint32_t struct_size;
  uint32_t reserved;
  /* inputs; NULL where the operator or the problem has none */
  const void* q;              /* [tokens, heads, qk_dim or dim] */
  const void* cache;          /* kv or keys */
  const int32_t* indices;     /* [tokens, topk] */
  const int32_t* topk_length; /* [tokens] */
  const float* attn_sink;     /* [heads] raw logits, natural units */
  const float* weights;       /* [tokens, heads], already scaled by the caller */
  const int32_t* block_table; /* [requests, block_table_stride] */
  const int32_t* request;     /* [tokens] */
  const int32_t* range_begin; /* [tokens or rows] */
  const int32_t* range_end;   /* [tokens or rows] */
  const float* scores_in;     /* top_k: [rows, score_stride] */
  const int32_t* positions;   /* map_slots: [count] */
  /* outputs */
  void* out;         /* [tokens, heads, v_dim] of out_dtype */
  float* lse;        /* [tokens, heads] */
  float* max_logit;  /* [tokens, heads]; NULL unless wants_max_logit */
  float* scores_out; /* index_scores: [tokens, score_stride] */
  int32_t* selected; /* top_k, index_select: [rows or tokens, k] */
  int32_t* slots;    /* map_slots: [count] */
} mlacheck_tensors;

/* ---- What a kernel declares ---- */

typedef enum mlacheck_lse_base {
  MLACHECK_LSE_NATURAL = 1,
  MLACHECK_LSE_BASE2 = 2
} mlacheck_lse_base;

/* lse of a row with no present entry */
typedef enum mlacheck_lse_empty {
  MLACHECK_EMPTY_MINUS_INF = 1,
  MLACHECK_EMPTY_PLUS_INF = 2,
  MLACHECK_EMPTY_MINUS_1E30 = 3
} mlacheck_lse_empty;

/* What a kernel makes of the scales of a 656-byte record: its value is */
typedef enum mlacheck_record_reader {
  MLACHECK_READ_FP32_PRODUCT = 1, /* q * scale in fp32, rounded once */
  MLACHECK_READ_BF16_SCALE = 2,   /* q * bf16(scale), rounded to bf16 */
  MLACHECK_READ_E8M0_SCALE = 3    /* q * the power of two at or below the scale */
} mlacheck_record_reader;

typedef struct mlacheck_conventions {
  uint32_t struct_size;
  int32_t lse_base;        /* mlacheck_lse_base */
  int32_t lse_empty;       /* mlacheck_lse_empty */
  int32_t sink_in_lse;     /* 1: lse includes the attention sink; 0: over the keys alone */
  int32_t duplicates_once; /* 1: a repeated index attends once; 0: as often as it stands */
  int32_t row_relative;    /* 1: selected keys count from range_begin; 0: absolute */
  int32_t any_order;       /* 1: selected keys come in any order; 0: ascending */
  int32_t any_tie;         /* 1: ties at the threshold fall anywhere; 0: to the lowest index */
  int32_t nan_first;       /* 1: NaN scores are selected first; 0: only when nothing else is left */
  int32_t unmasked_scores; /* 1: anything stands outside a row's range of scores; 0: -inf */
  int32_t record_reader;   /* mlacheck_record_reader; 0 where no record is read */
} mlacheck_conventions;

/* How the partial sums of n blocks meet. */
typedef enum mlacheck_sum_order {
  MLACHECK_SUM_SEQUENTIAL = 1, /* one accumulator */
  MLACHECK_SUM_LANES16 = 2,    /* 16 interleaved accumulators and a tree */
  MLACHECK_SUM_TREE = 3        /* a balanced tree */
} mlacheck_sum_order;

/* A sum in fp32. */
typedef struct mlacheck_accumulation {
  int32_t block; /* 1 to 1024 terms of one step: 16 for an f16 tensor core, 1 for scalar code */
  int32_t order; /* mlacheck_sum_order over the steps */
  int32_t toward_zero;    /* 1: steps truncate (tensor cores); 0: they round to nearest */
  int32_t alignment_bits; /* fraction bits that a truncating step keeps, 8 to 60: 25 on sm_90 and
                           * sm_120; block * 2^-alignment_bits <= 2^-7. Read if toward_zero. */
  int32_t rounds_terms;   /* 1: terms are rounded before they are added; 0: exact (or fused) */
} mlacheck_accumulation;

/* The arithmetic that sets the width of the admissible interval. A contract may be loose, but only
 * within the ranges in brackets: beyond them zeros would pass. What concerns other operators than
 * the kernel's is not read and may be 0. */
typedef struct mlacheck_contract {
  uint32_t struct_size;
  int32_t tile;                      /* keys between two rescales by a new maximum; 0: none */
  mlacheck_accumulation qk;          /* query-key products over qk_dim */
  mlacheck_accumulation pv;          /* weight-value products over the keys */
  mlacheck_accumulation weight_sum;  /* of the softmax weights */
  mlacheck_accumulation index_dot;   /* index_scores: products over dim */
  mlacheck_accumulation index_heads; /* index_scores: over the heads */
  int32_t weight_dtype;              /* mlacheck_dtype of the weights in the value product */
  int32_t weights_normalised; /* 1: rounded to weight_dtype after the division by their sum */
  int32_t sums_rounded;       /* 1: the sum of weights adds the rounded ones */
  int32_t max_splits;         /* partial results of a row that are merged [1, 2^20]; 1: none */
  int32_t partial_dtype;      /* mlacheck_dtype of stored partials: f32, f16, bf16 */
  int32_t score_dtype;        /* mlacheck_dtype of index scores: f32, f16, bf16 */
  int32_t flushes_subnormals; /* 1: fp32 results below 2^-126 become 0 */
  int32_t batch_invariant;    /* 1: promised, when the problem asks for it */
  int32_t run_deterministic;  /* 1: promised: the same bits from run to run */
  /* A power of two that weights are multiplied by before rounding [2^-16, 2^16]; [2^-2, 2^16] where
   * they are e4m3. */
  float weight_scale;
  float exp_error;     /* relative error of a weight [0, 2^-8], with a tile also <= tile * 2^-13 */
  float exp_underflow; /* weights below this may be flushed to 0 [0, 2^-20], e.g. 0x1p-126f */
  float log_error;     /* of ln l, relative to 1 + |ln l| [0, 2^-8] */
  float max_headroom;  /* log2 by which a weight may exceed 1 [0, 16]: a maximum raised lazily */
} mlacheck_contract;

typedef struct mlacheck_kernel {
  uint32_t struct_size;
  int32_t op;              /* mlacheck_operator */
  const char* name;        /* unique in its library, e.g. "sparse_attention_sm120" */
  const char* description; /* one line */
  int32_t memory;          /* mlacheck_memory: where it wants its tensors */
  int32_t reserved;
  mlacheck_conventions conventions;
  mlacheck_contract contract;

  /* 1: can run it. 0: cannot, and `why` (why_size bytes, always terminated) says which value and
   * what is allowed. */
  int (*supports)(const mlacheck_problem* problem, char* why, size_t why_size);
  /* Bytes of workspace that `run` needs, at most 2^34. */
  int (*workspace_size)(const mlacheck_problem* problem, uint64_t* bytes);
  /* Writes every output; asynchronous on `stream` for device memory. On failure `why` says what
   * went wrong. */
  int (*run)(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void* workspace,
             uint64_t workspace_bytes, void* stream, char* why, size_t why_size);

  /* Appended. Of the conventions: */
  int32_t relu_drops_nan; /* 1: the ReLU of index scores makes 0 of NaN; 0: NaN stays NaN */
  int32_t reserved_2;
} mlacheck_kernel;

typedef struct mlacheck_library {
  uint32_t struct_size;
  uint32_t abi_version; /* MLACHECK_ABI_VERSION that it was built with */
  const char* name;
  const char* version;
  const mlacheck_kernel* const* kernels; /* [kernel_count] */
  uint32_t kernel_count;
  uint32_t reserved;
} mlacheck_library;

/* The one exported symbol. `abi_version` is the caller's; NULL when the library cannot serve it. */
typedef const mlacheck_library* (*mlacheck_kernel_library_fn)(uint32_t abi_version);
#define MLACHECK_KERNEL_LIBRARY_SYMBOL "mlacheck_kernel_library"

#ifdef __cplusplus
}
#endif

#endif
