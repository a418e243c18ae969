#include <cmath>
#include <limits>
#include <vector>

#include "property_tests/legal/variants.h"
#include "property_tests/legal/vector_sum.h"
#include "tools/plugins/problem_views.h"

namespace mlacheck::legal {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLn2 = 0.6931472f;

float exp_of(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
float ln_of(float x) { return static_cast<float>(std::log(static_cast<double>(x))); }

// Present entries of a token.
struct Keys {
  std::int64_t dim;
  std::vector<float> rows;  // [n, dim]
  std::int64_t size() const { return dim == 0 ? 0 : std::ssize(rows) / dim; }
  const float* operator[](std::int64_t j) const { return rows.data() + j * dim; }
};

Keys present_keys(const mlacheck_sparse_attention_problem& p, const mlacheck_tensors& t,
                  std::int64_t token) {
  const RowsView view = plugin::rows_of(p.kv, t.cache);
  const std::int64_t length = t.topk_length != nullptr ? t.topk_length[token] : p.topk;
  Keys keys{p.qk_dim, {}};
  for (std::int64_t j = 0; j < length; ++j) {
    const std::int32_t slot = t.indices[token * p.index_stride + j];
    if (slot < 0 || slot >= p.kv.slots) continue;
    keys.rows.resize(keys.rows.size() + static_cast<std::size_t>(p.qk_dim));
    load_row(row_address(view, slot), view.dtype, p.qk_dim,
             keys.rows.data() + keys.rows.size() - p.qk_dim);
  }
  return keys;
}

// One split: its maximum, the sum of its weights, and its values over that sum.
struct Partial {
  float max = -kInfinity;
  float sum = 0;
  std::vector<float> out;
};

class Row {
 public:
  Row(const AttentionVariant& variant, const Keys& keys, std::int64_t v_dim)
      : variant_(variant), keys_(keys), v_dim_(v_dim) {}

  void attend(const float* q, float scale) {
    for (std::int64_t j = 0; j < keys_.size(); ++j) {
      scores_.push_back(dot(variant_.sums, q, keys_[j], keys_.dim) * scale);
      max_logit = std::max(max_logit, scores_.back());
    }
    const std::int64_t length = (keys_.size() + variant_.splits - 1) / variant_.splits;
    std::vector<Partial> partials;
    for (std::int64_t begin = 0; begin < keys_.size(); begin += length)
      partials.push_back(split(begin, std::min(begin + length, keys_.size())));
    merge(partials);
  }

  float max_logit = -kInfinity;
  float lse = -kInfinity;
  std::vector<float> out;

 private:
  Partial split(std::int64_t begin, std::int64_t end) const {
    Partial part;
    VectorSum weights(kFused, 1), values(variant_.sums, v_dim_);
    const std::int64_t tile = variant_.tile > 0 ? variant_.tile : end - begin;
    for (std::int64_t first = begin; first < end; first += tile) {
      const std::int64_t last = std::min(first + tile, end);
      float max = part.max;
      for (std::int64_t j = first; j < last; ++j) max = std::max(max, scores_[at(j)]);
      if (part.max == -kInfinity || max > part.max + variant_.max_headroom * kLn2) {
        const float factor = part.max == -kInfinity ? 0 : exp_of(part.max - max);
        weights.scale(factor);
        values.scale(factor);
        part.max = max;
      }
      if (variant_.weights_normalised == 0) add(first, last, part.max, 1, weights, values);
    }
    if (variant_.weights_normalised != 0) {
      for (std::int64_t j = begin; j < end; ++j) {
        const float weight = exp_of(scores_[at(j)] - part.max);
        weights.add(1, &weight);
      }
      part.sum = weights.total()[0];
      VectorSum unused(kFused, 1);
      add(begin, end, part.max, part.sum, unused, values);
      part.out = values.total();
      return part;
    }
    part.sum = weights.total()[0];
    part.out = values.total();
    for (float& x : part.out) x /= part.sum;
    return part;
  }

  // Entries [first, last), their weights over `sum`.
  void add(std::int64_t first, std::int64_t last, float max, float sum, VectorSum& weights,
           VectorSum& values) const {
    for (std::int64_t j = first; j < last; ++j) {
      const float weight = exp_of(scores_[at(j)] - max);
      const float rounded = round_to(*plugin::dtype_of(variant_.weight_dtype), weight / sum);
      weights.add(1, variant_.sums_rounded != 0 ? &rounded : &weight);
      values.add(rounded, keys_[j]);
    }
  }

  void merge(const std::vector<Partial>& partials) {
    out.assign(static_cast<std::size_t>(v_dim_), 0.0f);
    if (partials.empty()) return;
    if (partials.size() == 1) {
      out = partials[0].out;
      lse = partials[0].max + ln_of(partials[0].sum);
      return;
    }
    float max = -kInfinity, sum = 0;
    for (const Partial& part : partials) max = std::max(max, part.max);
    for (const Partial& part : partials) {
      const float weight = exp_of(part.max - max) * part.sum;
      sum += weight;
      for (std::size_t c = 0; c < out.size(); ++c)
        out[c] += weight * round_to(*plugin::dtype_of(variant_.partial_dtype), part.out[c]);
    }
    for (float& x : out) x /= sum;
    lse = max + ln_of(sum);
  }

  static std::size_t at(std::int64_t j) { return static_cast<std::size_t>(j); }

  const AttentionVariant& variant_;
  const Keys& keys_;
  std::int64_t v_dim_;
  std::vector<float> scores_;
};

}  // namespace

void run(const AttentionVariant& variant, const mlacheck_sparse_attention_problem& p,
         const mlacheck_tensors& t) {
  const QueryView queries{t.q, *plugin::dtype_of(p.q_dtype), p.q_token_stride, p.q_head_stride};
  const DType out_dtype = *plugin::dtype_of(p.out_dtype);
  std::vector<float> q(static_cast<std::size_t>(p.qk_dim));
  for (std::int64_t token = 0; token < p.tokens; ++token) {
    const Keys keys = present_keys(p, t, token);
    for (std::int64_t head = 0; head < p.heads; ++head) {
      load_row(query_address(queries, token, head), queries.dtype, p.qk_dim, q.data());
      Row row(variant, keys, p.v_dim);
      row.attend(q.data(), p.sm_scale);
      if (t.attn_sink != nullptr && row.lse != -kInfinity) {
        const double over = std::exp(static_cast<double>(t.attn_sink[head]) - double{row.lse});
        for (float& x : row.out) x *= static_cast<float>(1 / (1 + over));
      }
      const std::int64_t at = token * p.heads + head;
      store_row(row.out.data(), out_dtype, p.v_dim,
                static_cast<std::byte*>(t.out) +
                    at * p.v_dim * static_cast<std::int64_t>(size_of(out_dtype)));
      t.lse[at] = row.lse;
      if (p.wants_max_logit != 0) t.max_logit[at] = row.max_logit;
    }
  }
}

}  // namespace mlacheck::legal
