#include "property_tests/museum/attention_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "property_tests/museum/element_type.h"
#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/arithmetic/ordered_sum.h"
#include "reference/operators/kv_record_656.h"
#include "reference/operators/views.h"

namespace mlacheck::museum {

namespace {

constexpr std::int64_t kTile = 64;
constexpr std::int64_t kSplits = 4;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

float exp_of(float x) { return std::isnan(x) ? kNan : exp2_f32(x * kLog2E); }

kv_record_656::Reader reader_of(const AttentionKernel& kernel) {
  if (kernel.record_reader == MLACHECK_READ_BF16_SCALE) return kv_record_656::Reader::bf16_scale;
  if (kernel.record_reader == MLACHECK_READ_E8M0_SCALE) return kv_record_656::Reader::e8m0_scale;
  return kv_record_656::Reader::fp32_product;
}

void read_record(const AttentionCall& call, std::int64_t slot, kv_record_656::Reader reader,
                 float* row) {
  const mlacheck_cache& kv = call.problem.kv;
  const std::array<std::int32_t, 1> one = {static_cast<std::int32_t>(slot)};
  kv_record_656::read_cache(static_cast<const std::byte*>(call.tensors.cache),
                            {kv.slots, kv.page_size, kv.page_stride}, one, reader,
                            {row, size(kv_record_656::kDim)});
}

// One token: its entries and their rows.
class Token {
 public:
  Token(const AttentionKernel& kernel, const AttentionCall& call, std::int64_t t)
      : kernel_(kernel), call_(call), t_(t) {
    const auto& p = call.problem;
    const std::int64_t length =
        call.tensors.topk_length != nullptr ? call.tensors.topk_length[t] : p.topk;
    const std::int32_t* indices = call.tensors.indices + t * p.index_stride;
    for (std::int64_t j = 0; j < p.topk; ++j)
      slots_.push_back(j < length && is_present(call, indices[j]) ? indices[j] : -1);
    if (kernel.entries != nullptr) kernel.entries(call, t, slots_);
    read_rows();
  }

  AttentionRow attend(std::int64_t h) const {
    AttentionRow row;
    row.out.resize(size(call_.problem.v_dim));
    const std::vector<float> logits = logits_of(h);
    if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) {
      row.lse = row.max_logit = kNan;
      std::ranges::fill(row.out, kNan);
    } else {
      for (std::size_t j = 0; j < logits.size(); ++j)
        if (slots_[j] >= 0) row.max_logit = std::max(row.max_logit, logits[j]);
      std::vector<AttentionPart> parts = parts_of(logits);
      if (kernel_.merge != nullptr) kernel_.merge(call_, parts);
      merge(parts, row);
    }
    if (call_.tensors.attn_sink != nullptr) scale_by_sink(call_.tensors.attn_sink[h], row);
    if (kernel_.finish != nullptr) kernel_.finish(call_, t_, h, row);
    return row;
  }

 private:
  void read_rows() {
    const auto& p = call_.problem;
    rows_.resize(slots_.size() * size(p.qk_dim));
    const bool takes_slot_0 = (kernel_.reads_masked || kernel_.logits != nullptr) && p.kv.slots > 0;
    for (std::size_t j = 0; j < slots_.size(); ++j) {
      if (slots_[j] < 0 && !takes_slot_0) continue;
      const std::int64_t slot = std::max(slots_[j], 0);
      float* const row = rows_.data() + j * size(p.qk_dim);
      if (kernel_.read != nullptr)
        kernel_.read(call_, slot, row);
      else if (p.kv.format == MLACHECK_CACHE_FP8_656)
        read_record(call_, slot, reader_of(kernel_), row);
      else
        read_row(call_, slot, row);
    }
    if (kernel_.key != nullptr || kernel_.values != nullptr) keys_ = rows_;
    for (std::int64_t j = 0; kernel_.key != nullptr && j < p.topk; ++j)
      kernel_.key(call_, j, keys_.data() + j * p.qk_dim);
    if (kernel_.values != nullptr) kernel_.values(call_, rows_);
  }

  std::vector<float> logits_of(std::int64_t h) const {
    const auto& p = call_.problem;
    std::vector<float> q(size(p.qk_dim));
    load_row(static_cast<const std::byte*>(call_.tensors.q) +
                 (t_ * p.q_token_stride + h * p.q_head_stride) *
                     static_cast<std::int64_t>(size_of(element_type(p.q_dtype))),
             element_type(p.q_dtype), p.qk_dim, q.data());
    if (kernel_.query != nullptr) kernel_.query(call_, t_, h, q.data());
    const auto dot = kernel_.dot != nullptr ? kernel_.dot : ordered_dot;
    const float* const keys = keys_.empty() ? rows_.data() : keys_.data();
    std::vector<float> logits(slots_.size(), -kInfinity);
    for (std::size_t j = 0; j < slots_.size(); ++j) {
      if (slots_[j] < 0) continue;
      const float product = dot(q.data(), keys + j * q.size(), p.qk_dim);
      logits[j] = kernel_.logit != nullptr ? kernel_.logit(call_, product) : p.sm_scale * product;
    }
    if (kernel_.logits != nullptr) kernel_.logits(call_, logits);
    return logits;
  }

  std::vector<AttentionPart> parts_of(const std::vector<float>& logits) const {
    const std::int64_t n = std::ssize(logits);
    const std::int64_t tiles = (n + kTile - 1) / kTile;
    const std::int64_t splits = kernel_.splits != nullptr ? kernel_.splits(call_) : kSplits;
    const std::int64_t length = std::max<std::int64_t>((tiles + splits - 1) / splits, 1) * kTile;
    std::vector<AttentionPart> parts;
    for (std::int64_t first = 0; first < n; first += length) {
      AttentionPart part;
      part.acc.resize(size(call_.problem.v_dim));
      for (std::int64_t tile = first; tile < std::min(first + length, n); tile += kTile)
        add_tile(logits, tile, std::min(tile + kTile, n), part);
      if (kernel_.part != nullptr) kernel_.part(call_, part);
      parts.push_back(std::move(part));
    }
    return parts;
  }

  void add_tile(const std::vector<float>& logits, std::int64_t first, std::int64_t last,
                AttentionPart& part) const {
    const auto exp = kernel_.exp != nullptr ? kernel_.exp : exp_of;
    const float max =
        std::max(part.max, *std::max_element(logits.begin() + first, logits.begin() + last));
    if (max == -kInfinity && kernel_.guards_empty && !kernel_.reads_masked) return;
    if (max != part.max) {
      const float factor = part.max == -kInfinity ? 0.0f : exp(part.max - max);
      part.sum *= factor;
      if (kernel_.rescales)
        for (float& a : part.acc) a *= factor;
      part.max = max;
    }
    for (std::int64_t j = first; j < last; ++j) {
      const float logit = logits[size(j)];
      const bool masked = logit == -kInfinity;
      if (masked && kernel_.guards_empty && !kernel_.reads_masked) continue;
      const float weight = masked && kernel_.guards_empty ? 0.0f : exp(logit - max);
      part.sum += weight;
      const float rounded = kernel_.weight != nullptr
                                ? kernel_.weight(weight)
                                : round_to(element_type(kernel_.weight_dtype), weight);
      const float* const value = rows_.data() + j * call_.problem.qk_dim;
      for (std::size_t c = 0; c < part.acc.size(); ++c) part.acc[c] += rounded * value[c];
    }
  }

  void merge(const std::vector<AttentionPart>& parts, AttentionRow& row) const {
    float max = -kInfinity;
    float total = 0;
    for (const AttentionPart& part : parts) max = std::max(max, part.max);
    for (const AttentionPart& part : parts) {
      if (part.max == -kInfinity && part.sum == 0) continue;
      const float share = exp_of(part.max - max) * part.sum;
      total += share;
      for (std::size_t c = 0; c < row.out.size(); ++c)
        row.out[c] += share * (part.acc[c] / part.sum);
    }
    if (total == 0) return;
    for (float& x : row.out) x /= total;
    row.lse = max + log2_f32(total) * kLn2;
  }

  void scale_by_sink(float sink, AttentionRow& row) const {
    if (row.lse == -kInfinity) return;
    const float factor =
        kernel_.sink != nullptr ? kernel_.sink(sink, row.lse) : 1 / (1 + exp_of(sink - row.lse));
    for (float& x : row.out) x *= factor;
  }

  const AttentionKernel& kernel_;
  const AttentionCall& call_;
  std::int64_t t_;
  std::vector<std::int32_t> slots_;  // [topk]
  std::vector<float> rows_;          // [topk, qk_dim]
  std::vector<float> keys_;          // where they are not the rows
};

}  // namespace

const std::byte* row_of_cache(const AttentionCall& call, std::int64_t slot) {
  const mlacheck_cache& kv = call.problem.kv;
  return static_cast<const std::byte*>(call.tensors.cache) + slot / kv.page_size * kv.page_stride +
         slot % kv.page_size * kv.row_stride;
}

void read_row(const AttentionCall& call, std::int64_t slot, float* row) {
  if (call.problem.kv.format == MLACHECK_CACHE_FP8_656)
    read_record(call, slot, kv_record_656::Reader::fp32_product, row);
  else
    load_row(row_of_cache(call, slot), element_type(call.problem.kv.dtype), call.problem.qk_dim,
             row);
}

bool is_present(const AttentionCall& call, std::int32_t slot) {
  return slot >= 0 && slot < call.problem.kv.slots;
}

void run(const AttentionKernel& kernel, const AttentionCall& call) {
  if (kernel.begin != nullptr && !kernel.begin(call)) return;
  const auto& p = call.problem;
  const DType out_dtype = element_type(p.out_dtype);
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    const Token token(kernel, call, t);
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const AttentionRow row = token.attend(h);
      if (!row.stored) continue;
      const std::int64_t at = t * p.heads + h;
      store_row(row.out.data(), out_dtype, p.v_dim,
                static_cast<std::byte*>(call.tensors.out) +
                    at * p.v_dim * static_cast<std::int64_t>(size_of(out_dtype)));
      call.tensors.lse[at] = row.lse;
      if (p.wants_max_logit != 0) call.tensors.max_logit[at] = row.max_logit;
    }
  }
  if (kernel.end != nullptr) kernel.end(call);
}

mlacheck_conventions conventions_of(const AttentionKernel& kernel) {
  mlacheck_conventions conventions = {};
  conventions.struct_size = sizeof(conventions);
  conventions.lse_base = MLACHECK_LSE_NATURAL;
  conventions.lse_empty = MLACHECK_EMPTY_MINUS_INF;
  conventions.record_reader = kernel.record_reader;
  return conventions;
}

mlacheck_contract contract_of(const AttentionKernel& kernel) {
  mlacheck_contract contract = {};
  contract.struct_size = sizeof(contract);
  contract.tile = kTile;
  contract.qk = kLanes;
  contract.pv = kInOrder;
  contract.weight_sum = {1, MLACHECK_SUM_SEQUENTIAL, 0, 25, 0};
  contract.weight_dtype = kernel.weight_dtype;
  contract.max_splits = kSplits;
  contract.partial_dtype = MLACHECK_F32;
  contract.batch_invariant = 1;
  contract.run_deterministic = 1;
  contract.weight_scale = 1;
  contract.exp_error = kExp2Error;
  contract.exp_underflow = 0x1p-126f;
  contract.log_error = kLnError;
  return contract;
}

std::span<const AttentionKernel> honest_attention() {
  static constexpr AttentionKernel kKernels[] = {
      {.label = {"honest_attention", "nothing is", ""}},
      {.label = {"honest_attention_bf16_weights", "nothing is", ""}, .weight_dtype = MLACHECK_BF16},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
