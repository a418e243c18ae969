// sparse_attention kernels with one thing wrong each, and an honest one: what the program's tests
// run. Plain loops in double, so that nothing but the fault sets them apart from the right answer.
// Each library holds one kernel; WRONG_KERNEL names it.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numbers>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "reference/formats/bf16.h"
#include "tools/plugins/reference_declaration.h"

namespace {

using Problem = mlacheck_sparse_attention_problem;
using mlacheck::Bf16;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One head of one token.
struct Row {
  std::vector<double> out;
  double lse = -kInfinity;
  double max_logit = -kInfinity;
};

const Bf16* key_row(const Problem& p, const mlacheck_tensors& t, std::int32_t slot) {
  const auto* cache = static_cast<const std::byte*>(t.cache);
  std::int64_t offset =
      slot / p.kv.page_size * p.kv.page_stride + slot % p.kv.page_size * p.kv.row_stride;
  if (std::string_view(WRONG_KERNEL) == "offsets_of_32_bits")
    offset = static_cast<std::uint32_t>(offset);
  return reinterpret_cast<const Bf16*>(cache + offset);
}

std::vector<std::int32_t> present_keys(const Problem& p, const mlacheck_tensors& t,
                                       std::int64_t token) {
  const std::int64_t length = t.topk_length != nullptr ? t.topk_length[token] : p.topk;
  std::vector<std::int32_t> keys(t.indices + token * p.index_stride,
                                 t.indices + token * p.index_stride + length);
  std::erase_if(keys, [&](std::int32_t key) { return key < 0 || key >= p.kv.slots; });
  return keys;
}

Row attend(const Problem& p, const mlacheck_tensors& t, const Bf16* q,
           const std::vector<std::int32_t>& keys) {
  Row row;
  row.out.resize(static_cast<std::size_t>(p.v_dim));
  std::vector<double> scores;
  for (const std::int32_t key : keys) {
    const Bf16* k = key_row(p, t, key);
    double dot = 0;
    for (std::int64_t d = 0; d < p.qk_dim; ++d)
      dot += static_cast<double>(to_float(q[d])) * static_cast<double>(to_float(k[d]));
    scores.push_back(static_cast<double>(p.sm_scale) * dot);
    row.max_logit = std::max(row.max_logit, scores.back());
  }
  if (keys.empty()) return row;
  double sum = 0;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    const double weight = std::exp(scores[j] - row.max_logit);
    sum += weight;
    const Bf16* v = key_row(p, t, keys[j]);
    for (std::size_t d = 0; d < row.out.size(); ++d)
      row.out[d] += weight * static_cast<double>(to_float(v[d]));
  }
  for (double& x : row.out) x /= sum;
  row.lse = row.max_logit + std::log(sum);
  return row;
}

// ---- The faults ----

void keep(Row&) {}
void all_keys(std::vector<std::int32_t>&) {}

void zero(Row& row) {
  std::fill(row.out.begin(), row.out.end(), 0.0);
  row.lse = row.max_logit = 0;
}

void zero_out(Row& row) { std::fill(row.out.begin(), row.out.end(), 0.0); }

void lse_in_base_2(Row& row) { row.lse *= std::numbers::log2e; }

void crash(Row&) { std::abort(); }
void crash_at_exit(Row&) { [[maybe_unused]] static const int once = std::atexit(std::abort); }
void hang(Row&) {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

// As many rows as a check of four rows has in its four calls.
constexpr int kRowsOfACheck = 16;
int rows_made = 0;

bool is_spoilt() { return ++rows_made > kRowsOfACheck; }
void count(Row&) { ++rows_made; }
void zero_when_spoilt(Row& row) {
  if (is_spoilt()) zero(row);
}
void crash_when_spoilt(Row&) {
  if (is_spoilt()) std::abort();
}

void drop_last(std::vector<std::int32_t>& keys) {
  if (!keys.empty()) keys.pop_back();
}

// The reason is hostile to terminals, XML and JSON.
int refuse(const mlacheck_problem*, char* why, std::size_t why_size) {
  std::strncpy(why, "h: \"<64>\" & more only \x1b[31m\xff", why_size - 1);
  return 0;
}

int refuse_without_a_word(const mlacheck_problem*, char*, std::size_t) { return 0; }

int accept(const mlacheck_problem* problem, char* why, std::size_t why_size) {
  const Problem& p = problem->u.sparse_attention;
  if (p.kv.format == MLACHECK_CACHE_ROWS && p.kv.dtype == MLACHECK_BF16 &&
      p.q_dtype == MLACHECK_BF16 && p.out_dtype == MLACHECK_BF16 && p.has_attn_sink == 0)
    return 1;
  std::strncpy(why, "bf16 rows without sink only", why_size - 1);
  return 0;
}

int refuse_batch_invariant(const mlacheck_problem* problem, char* why, std::size_t why_size) {
  if (problem->u.sparse_attention.batch_invariant == 0) return accept(problem, why, why_size);
  std::strncpy(why, "batch_invariant 1: 0 only", why_size - 1);
  return 0;
}

int abort_when_asked(const mlacheck_problem*, char*, std::size_t) { std::abort(); }

int abort_when_asked_later(const mlacheck_problem* problem, char* why, std::size_t why_size) {
  if (rows_made >= kRowsOfACheck) std::abort();
  return accept(problem, why, why_size);
}

struct Kernel {
  std::string_view name;
  void (*change_keys)(std::vector<std::int32_t>&) = all_keys;
  void (*change_row)(Row&) = keep;
  decltype(accept)* supports = accept;
  std::int32_t lse_base = MLACHECK_LSE_NATURAL;
  bool only_when_batch_invariant = false;
  bool expects_max_logit = false;  // asked for or not
  std::int32_t flushes_subnormals = 0;
};

constexpr Kernel kKernels[] = {
    {.name = "zeros", .change_row = zero},
    {.name = "zeros_when_batch_invariant", .change_row = zero, .only_when_batch_invariant = true},
    {.name = "mislabels_lse", .change_row = lse_in_base_2},
    {.name = "drops_last_key", .change_keys = drop_last},
    {.name = "offsets_of_32_bits"},
    {.name = "base_2", .change_row = lse_in_base_2, .lse_base = MLACHECK_LSE_BASE2},
    {.name = "refuses", .supports = refuse},
    {.name = "refuses_without_a_word", .supports = refuse_without_a_word},
    {.name = "refuses_batch_invariant", .supports = refuse_batch_invariant},
    {.name = "expects_max_logit", .expects_max_logit = true},
    {.name = "zeros_of_subnormals", .change_row = zero_out, .flushes_subnormals = 1},
    {.name = "hangs", .change_row = hang},
    {.name = "crashes", .change_row = crash},
    {.name = "crashes_at_exit", .change_row = crash_at_exit},
    {.name = "crashes_later", .change_row = crash_when_spoilt},
    {.name = "zeros_later", .change_row = zero_when_spoilt},
    {.name = "crashes_when_asked", .supports = abort_when_asked},
    {.name = "crashes_when_asked_later", .change_row = count, .supports = abort_when_asked_later},
};

constexpr Kernel kChosen =
    *std::find_if(std::begin(kKernels), std::end(kKernels),
                  [](const Kernel& kernel) { return kernel.name == WRONG_KERNEL; });

// ---- The library ----

int run(const mlacheck_problem* problem, const mlacheck_tensors* t, void*, std::uint64_t, void*,
        char*, std::size_t) {
  const Problem& p = problem->u.sparse_attention;
  auto* out = static_cast<Bf16*>(t->out);
  for (std::int64_t token = 0; token < p.tokens; ++token)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      const auto* q =
          static_cast<const Bf16*>(t->q) + token * p.q_token_stride + head * p.q_head_stride;
      std::vector<std::int32_t> keys = present_keys(p, *t, token);
      kChosen.change_keys(keys);
      Row row = attend(p, *t, q, keys);
      if (!kChosen.only_when_batch_invariant || p.batch_invariant != 0) kChosen.change_row(row);
      const std::int64_t at = token * p.heads + head;
      for (std::int64_t d = 0; d < p.v_dim; ++d)
        out[at * p.v_dim + d] =
            mlacheck::to_bf16(static_cast<float>(row.out[static_cast<std::size_t>(d)]));
      t->lse[at] = static_cast<float>(row.lse);
      if (p.wants_max_logit != 0 || kChosen.expects_max_logit)
        t->max_logit[at] = static_cast<float>(row.max_logit);
    }
  return 0;
}

int workspace_size(const mlacheck_problem*, std::uint64_t* bytes) {
  *bytes = 0;
  return 0;
}

// The reference's, whose sums are wider than those in double.
constexpr mlacheck_contract kContract = [] {
  mlacheck_contract contract = mlacheck::plugin::kReferenceContract;
  contract.batch_invariant = 1;
  contract.flushes_subnormals = kChosen.flushes_subnormals;
  return contract;
}();

constexpr mlacheck_conventions kConventions = [] {
  mlacheck_conventions conventions = mlacheck::plugin::kReferenceConventions;
  conventions.lse_base = kChosen.lse_base;
  return conventions;
}();

constexpr mlacheck_kernel kKernel = {.struct_size = sizeof(mlacheck_kernel),
                                     .op = MLACHECK_SPARSE_ATTENTION,
                                     .name = WRONG_KERNEL,
                                     .description = "in double, at most one thing wrong",
                                     .memory = MLACHECK_HOST,
                                     .reserved = 0,
                                     .conventions = kConventions,
                                     .contract = kContract,
                                     .supports = kChosen.supports,
                                     .workspace_size = workspace_size,
                                     .run = run,
                                     .relu_drops_nan = 0,
                                     .reserved_2 = 0};

constexpr const mlacheck_kernel* kList[] = {&kKernel};

constexpr mlacheck_library kLibrary = {.struct_size = sizeof(mlacheck_library),
                                       .abi_version = MLACHECK_ABI_VERSION,
                                       .name = "wrong kernels",
                                       .version = "1",
                                       .kernels = kList,
                                       .kernel_count = 1,
                                       .reserved = 0};

}  // namespace

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(std::uint32_t) {
  return &kLibrary;
}
