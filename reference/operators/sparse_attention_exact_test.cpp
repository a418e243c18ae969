// Answers that are known to the bit, special values, and what is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/operators/sparse_attention_case.h"

namespace mlacheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kNan = 0x7fffffff;

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(SparseAttention, EmptyRowsAnswerZeroAndMinusInfinity) {
  AttentionCase c;
  c.sink = {kInfinity, -kInfinity};
  c.fill(1);
  c.lengths = {0, 5, 5};
  for (std::int64_t j = 0; j < 5; ++j)
    c.indices[index_of(5 + j)] = -1;  // row 1; row 2 is not empty
  c.indices[10] = 0;
  const SparseAttentionResult result = c.run();
  for (std::int64_t i = 0; i < 2 * c.heads; ++i) {
    EXPECT_EQ(result.lse[index_of(i)], -kInfinity);
    EXPECT_EQ(result.max_logit[index_of(i)], -kInfinity);
    for (std::int64_t d = 0; d < c.v_dim; ++d)
      EXPECT_EQ(bits(result.out[index_of(i * c.v_dim + d)]), 0u);
  }
  EXPECT_TRUE(std::isfinite(result.lse[index_of(2 * c.heads)]));
}

TEST(SparseAttention, NoTokensNoEntriesNoSlots) {
  AttentionCase c;
  c.tokens = 0;
  c.fill(1);
  EXPECT_TRUE(c.run().out.empty());

  SparseAttentionProblem none;  // null everywhere
  EXPECT_TRUE(sparse_attention(none).lse.empty());

  AttentionCase no_entries;
  no_entries.topk = 0;
  no_entries.fill(1);
  SparseAttentionProblem problem = no_entries.problem();
  problem.indices = nullptr;
  problem.index_stride = 7;
  EXPECT_EQ(sparse_attention(problem).lse, std::vector<float>(6, -kInfinity));

  AttentionCase no_slots;
  no_slots.fill(1);
  problem = no_slots.problem();
  problem.kv.slots = 0;
  problem.kv.data = nullptr;
  EXPECT_EQ(sparse_attention(problem).lse, std::vector<float>(6, -kInfinity));
}

// q = 0: every entry weighs 1, so small integers are averaged without error.
TEST(SparseAttention, CensusCountsEveryEntry) {
  AttentionCase c;
  c.tokens = 1;
  c.topk = 64;
  c.fill(1);
  std::fill(c.q.begin(), c.q.end(), 0.0f);
  for (std::int64_t slot = 0; slot < c.slots; ++slot)
    for (std::int64_t d = 0; d < c.v_dim; ++d)
      c.row(slot)[d] = static_cast<float>((slot * 5 + d * 3) % 16);
  for (std::int64_t j = 0; j < 64; ++j)  // slot 3 stands 25 times, 4 .. 42 once, some out of range
    c.indices[index_of(j)] = static_cast<std::int32_t>(j < 25 ? 3 : j - 21);
  c.indices[63] = 4;
  c.indices[62] = 5;
  c.indices[61] = 6;
  const SparseAttentionResult result = c.run();
  for (std::int64_t d = 0; d < c.v_dim; ++d) {
    float sum = 0;
    for (const std::int32_t index : c.indices) sum += c.row(index)[d];
    EXPECT_EQ(bits(result.out[index_of(d)]), bits(sum / 64)) << d;
  }
  EXPECT_EQ(bits(result.lse[0]), bits(6.0f * kLn2));
  EXPECT_EQ(bits(result.max_logit[0]), 0u);

  c.indices[7] = 4;  // one count moved
  EXPECT_FALSE(same_bits(result, c.run()));
}

// One entry so far above the others that their weights are 0.
TEST(SparseAttention, NeedleIsReturnedExactly) {
  AttentionCase c;
  c.tokens = 1;
  c.topk = 100;
  c.fill(2);
  const std::int64_t needle = 17;
  for (std::int64_t h = 0; h < c.heads; ++h) c.q[index_of(h * c.qk_dim + 30)] = 64.0f;
  for (std::int64_t slot = 0; slot < c.slots; ++slot)
    c.row(slot)[30] = slot == needle ? 64.0f : -64.0f;
  std::replace(c.indices.begin(), c.indices.end(), 17, 18);
  c.indices[83] = needle;
  const SparseAttentionResult result = c.run();
  for (std::int64_t d = 0; d < c.v_dim; ++d)
    EXPECT_EQ(bits(result.out[index_of(d)]), bits(c.row(needle)[d])) << d;
  EXPECT_EQ(bits(result.lse[0]), bits(result.max_logit[0]));

  c.indices[84] = needle;  // twice: the same output, one more ln 2
  EXPECT_TRUE(same_bits(c.run().out, result.out));
  EXPECT_EQ(c.run().lse[0], result.max_logit[0] + kLn2);
  c.indices[83] = c.indices[84] = -1;
  EXPECT_FALSE(same_bits(c.run().out, result.out));
}

TEST(SparseAttention, SinkScalesOutAlone) {
  AttentionCase c;
  c.topk = 33;
  c.fill(4);
  const SparseAttentionResult plain = c.run();
  const auto with_sink = [&](float sink0, float sink1) {
    c.sink = {sink0, sink1};
    const SparseAttentionResult result = c.run();
    EXPECT_TRUE(same_bits(result.lse, plain.lse));
    EXPECT_TRUE(same_bits(result.max_logit, plain.max_logit));
    return result.out;
  };
  EXPECT_TRUE(same_bits(with_sink(-kInfinity, -kInfinity), plain.out));
  EXPECT_EQ(with_sink(kInfinity, kInfinity), std::vector<float>(plain.out.size(), 0.0f));
  // A sink equal to the lse of (0, 0) and (0, 1) halves these exactly.
  const std::vector<float> halved = with_sink(plain.lse[0], plain.lse[1]);
  for (std::int64_t i = 0; i < 2 * c.v_dim; ++i)
    EXPECT_EQ(bits(halved[index_of(i)]), bits(plain.out[index_of(i)] * 0.5f));
  EXPECT_FALSE(same_bits(halved, plain.out));
  const std::vector<float> scaled = with_sink(0.3f, -1.0f);  // after the division, as stated
  for (std::int64_t i = 0; i < 2 * c.v_dim; ++i) {
    const float exponent =
        (c.sink[index_of(i / c.v_dim)] - plain.lse[index_of(i / c.v_dim)]) * kLog2E;
    EXPECT_EQ(bits(scaled[index_of(i)]),
              bits(plain.out[index_of(i)] * (1.0f / (1.0f + exp2_f32(exponent)))));
  }
  EXPECT_TRUE(std::isnan(with_sink(std::nanf(""), 0)[0]));
}

TEST(SparseAttention, OutIsRoundedOnceAtTheEnd) {
  AttentionCase c;
  c.topk = 33;
  c.sink = {0.5f, -2.0f};
  c.fill(6);
  const SparseAttentionResult exact = c.run();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    c.out_dtype = dtype;
    const SparseAttentionResult rounded = c.run();
    EXPECT_TRUE(same_bits(rounded.lse, exact.lse));
    EXPECT_FALSE(same_bits(rounded.out, exact.out));
    for (std::size_t i = 0; i < exact.out.size(); ++i)
      ASSERT_EQ(bits(rounded.out[i]), bits(round_to(dtype, exact.out[i]))) << i;
  }
}

// Two keys, weights 1 and w = exp2((s1 - s0) log2e), values 0 and 1: out = round(w) / (1 + w).
TEST(SparseAttention, WeightsAreRoundedForTheValuesAlone) {
  AttentionCase c;
  c.tokens = c.heads = 1;
  c.topk = 2;
  c.dtype = DType::f32;
  c.fill(1);
  std::fill(c.q.begin(), c.q.end(), 0.0f);
  c.q[39] = 1.0f;
  c.sm_scale = 1.0f;
  c.indices = {0, 1};
  c.row(0)[39] = 0.75f;
  c.row(1)[39] = 0.0f;
  c.row(0)[0] = 0.0f;
  c.row(1)[0] = 1.0f;
  const float w = exp2_f32(-0.75f * kLog2E);
  const SparseAttentionProblem problem = c.problem();
  std::vector<float> seen;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const SparseAttentionResult result = sparse_attention(problem, {dtype});
    EXPECT_EQ(bits(result.out[0]), bits(round_to(dtype, w) / (1.0f + w)));
    EXPECT_EQ(bits(result.lse[0]), bits(0.75f + log2_f32(1.0f + w) * kLn2));
    EXPECT_EQ(std::count(seen.begin(), seen.end(), result.out[0]), 0);  // the three differ
    seen.push_back(result.out[0]);
  }
  EXPECT_THROW(sparse_attention(problem, {DType::e4m3}), std::invalid_argument);
}

// Column 39 is no value; entry `slot` gets the score scale * q * k of it.
class Specials : public testing::Test {
 protected:
  Specials() {
    case_.tokens = case_.heads = 1;
    case_.topk = 20;
    case_.dtype = DType::f32;
    case_.fill(9);
    for (std::int64_t j = 0; j < 20; ++j) case_.indices[index_of(j)] = static_cast<std::int32_t>(j);
    case_.q[39] = 1.0f;
  }
  AttentionCase case_;
};

TEST_F(Specials, NanScoreMakesTheRowNan) {
  case_.row(11)[39] = std::bit_cast<float>(0xffc12345u);
  case_.row(12)[39] = kInfinity;
  const SparseAttentionResult result = case_.run();
  EXPECT_EQ(bits(result.lse[0]), kNan);
  EXPECT_EQ(bits(result.max_logit[0]), kNan);
  for (const float x : result.out) EXPECT_EQ(bits(x), kNan);
}

TEST_F(Specials, NanValueMakesItsColumnNan) {
  case_.q[5] = 0.0f;
  case_.row(11)[5] = std::nanf("");  // 0 * NaN reaches the score too
  for (const float x : case_.run().out) EXPECT_EQ(bits(x), kNan);
}

// Inf - Inf: the NaN that the CPU makes is not the canonical one.
TEST_F(Specials, NanIsCanonical) {
  case_.q[38] = 1.0f;
  case_.row(11)[38] = kInfinity;
  case_.row(11)[39] = -kInfinity;
  const SparseAttentionResult result = case_.run();
  EXPECT_EQ(bits(result.lse[0]), kNan);
  EXPECT_EQ(bits(result.max_logit[0]), kNan);
  for (const float x : result.out) EXPECT_EQ(bits(x), kNan);
}

TEST_F(Specials, PlusInfinityScore) {
  case_.row(3)[39] = kInfinity;
  const SparseAttentionResult result = case_.run();
  EXPECT_EQ(result.max_logit[0], kInfinity);
  EXPECT_EQ(bits(result.lse[0]), kNan);
  for (const float x : result.out) EXPECT_EQ(bits(x), kNan);
}

TEST_F(Specials, MinusInfinityScoreHasNoWeight) {
  AttentionCase without = case_;
  without.indices[19] = -1;
  case_.row(19)[39] = -kInfinity;
  EXPECT_TRUE(same_bits(without.run(), case_.run()));

  case_.q[7] = -1.0f;
  case_.row(19)[7] = kInfinity;  // -inf score from an Inf that is a value too: 0 * Inf
  const SparseAttentionResult infinite_value = case_.run();
  EXPECT_TRUE(std::isfinite(infinite_value.lse[0]));
  EXPECT_EQ(bits(infinite_value.out[7]), kNan);
  EXPECT_TRUE(std::isfinite(infinite_value.out[8]));
}

TEST_F(Specials, NothingButMinusInfinityIsAnEmptyRow) {
  for (std::int64_t slot = 0; slot < 20; ++slot) case_.row(slot)[39] = -kInfinity;
  const SparseAttentionResult result = case_.run();
  EXPECT_EQ(result.lse[0], -kInfinity);
  EXPECT_EQ(result.max_logit[0], -kInfinity);
  for (const float x : result.out) EXPECT_EQ(bits(x), 0u);
}

TEST_F(Specials, MaxLogitIsNeverMinusZero) {
  std::fill(case_.q.begin(), case_.q.end(), 0.0f);
  case_.sm_scale = -1.0f;
  EXPECT_EQ(bits(case_.run().max_logit[0]), 0u);
}

TEST(SparseAttention, RefusesWhatContradicts) {
  using Change = std::function<void(SparseAttentionProblem&)>;
  static const std::int32_t lengths[] = {5, 6, 5};
  static const std::int32_t negative[] = {5, 5, -1};
  const std::pair<const char*, Change> changes[] = {
      {"tokens: expected >= 0, got -1", [](auto& p) { p.tokens = -1; }},
      {"heads: expected >= 1, got 0", [](auto& p) { p.heads = 0; }},
      {"topk: expected >= 0, got -1", [](auto& p) { p.topk = -1; }},
      {"v_dim: expected >= 1, got 0", [](auto& p) { p.v_dim = 0; }},
      {"qk_dim: expected >= v_dim 24, got 23", [](auto& p) { p.qk_dim = 23; }},
      {"q.dtype", [](auto& p) { p.q.dtype = DType::e4m3; }},
      {"kv.dtype", [](auto& p) { p.kv.dtype = DType::u8; }},
      {"out_dtype", [](auto& p) { p.out_dtype = DType::i32; }},
      {"q.data", [](auto& p) { p.q.data = nullptr; }},
      {"q.token_stride: expected >= 40, got 0", [](auto& p) { p.q.token_stride = 0; }},
      {"q.head_stride: expected >= 40, got 39", [](auto& p) { p.q.head_stride = 39; }},
      {"kv.data", [](auto& p) { p.kv.data = nullptr; }},
      {"kv.slots", [](auto& p) { p.kv.slots = -1; }},
      {"kv.page_size", [](auto& p) { p.kv.page_size = 0; }},
      {"kv.row_stride: expected >= 80, got 40", [](auto& p) { p.kv.row_stride = 40; }},
      {"kv.page_stride: expected >= 320, got 319",
       [](auto& p) {
         p.kv.page_size = 4;
         p.kv.page_stride = 319;
       }},
      {"kv.scale_offset", [](auto& p) { p.kv.scale_offset = 0; }},
      {"indices", [](auto& p) { p.indices = nullptr; }},
      {"index_stride: expected >= topk 5, got 4", [](auto& p) { p.index_stride = 4; }},
      {"sm_scale", [](auto& p) { p.sm_scale = kInfinity; }},
      {"topk_length[1]: expected 0 .. topk 5, got 6", [](auto& p) { p.topk_length = lengths; }},
      {"topk_length[2]: expected 0 .. topk 5, got -1", [](auto& p) { p.topk_length = negative; }},
  };
  AttentionCase c;
  c.fill(1);
  EXPECT_NO_THROW(sparse_attention(c.problem()));
  for (const auto& [message, change] : changes) {
    SparseAttentionProblem problem = c.problem();
    change(problem);
    try {
      sparse_attention(problem);
      ADD_FAILURE() << "accepted: " << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace mlacheck
