// Laws that relate two runs bit for bit, each with a change that breaks it.

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "reference/operators/sparse_attention_case.h"

namespace mlacheck {
namespace {

constexpr std::int32_t kIntMin = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();

AttentionCase base_case(std::uint64_t seed) {
  AttentionCase c;
  c.heads = 35;
  c.topk = 70;
  c.slots = 128;
  c.sink.assign(35, 0.5f);
  c.lengths = {70, 41, 1};
  c.fill(seed);
  return c;
}

// The present entries of every row, spread over rows of `topk` entries: where `absent_at` says so
// stands one of the absent values instead.
template <typename Predicate>
AttentionCase with_absent(const AttentionCase& c, std::int64_t topk, Predicate absent_at) {
  AttentionCase spread = c;
  const auto slots = static_cast<std::int32_t>(c.slots);
  const std::int32_t absent[] = {-1, kIntMin, slots, kIntMax, -slots, slots + 1};
  spread.topk = topk;
  spread.indices.assign(index_of(c.tokens * topk), 0);  // past topk_length: slot 0, a valid one
  spread.lengths.clear();
  AttentionCase storage = c;
  const SparseAttentionProblem problem = storage.problem();
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    const std::vector<std::int32_t> present = present_slots(problem, t);
    std::int32_t* row = spread.indices.data() + t * topk;
    std::size_t next = 0;
    std::int32_t j = 0;
    for (; next < present.size() || (j < topk && absent_at(t, j)); ++j)
      row[j] = absent_at(t, j) ? absent[j % 6] : present[next++];
    spread.lengths.push_back(j);
  }
  return spread;
}

TEST(SparseAttentionLaws, AbsentEntriesChangeNoBitWhereverTheyStand) {
  AttentionCase c = base_case(1);
  const SparseAttentionResult expected = c.run();
  const auto run = [&](std::int64_t topk, auto absent_at) {
    return with_absent(c, topk, absent_at).run();
  };
  EXPECT_TRUE(same_bits(expected, run(70, [](auto, auto) { return false; })));
  EXPECT_TRUE(same_bits(expected, run(300, [](auto, auto j) { return j < 33; })));
  EXPECT_TRUE(same_bits(expected, run(300, [](auto, auto j) { return j % 2 == 0; })));
  EXPECT_TRUE(same_bits(expected, run(300, [](auto t, auto j) { return (j * 7 + t) % 5 < 2; })));
  EXPECT_TRUE(same_bits(expected, run(300, [](auto, auto j) { return j >= 70; })));  // appended

  AttentionCase changed = with_absent(c, 300, [](auto, auto j) { return j % 2 == 0; });
  changed.indices[0] = 5;  // one absent entry taken for present
  EXPECT_FALSE(same_bits(expected, changed.run()));
  changed = with_absent(c, 300, [](auto, auto j) { return j % 2 == 0; });
  changed.lengths[1] += 1;  // one entry past the length
  EXPECT_FALSE(same_bits(expected, changed.run()));
}

TEST(SparseAttentionLaws, UnselectedRowsAreNeverLookedAt) {
  AttentionCase c = base_case(2);
  for (std::int32_t& index : c.indices)
    if (index >= 0) index = index / 2 * 2 + 1;  // odd slots alone
  const SparseAttentionResult expected = c.run();
  for (std::int64_t slot = 0; slot < c.slots; slot += 2)
    std::fill(c.row(slot), c.row(slot) + c.qk_dim, std::nanf(""));
  EXPECT_TRUE(same_bits(expected, c.run()));
  c.paging = {16, 3, 8};  // gaps hold NaN
  c.query_padding = 5;
  EXPECT_TRUE(same_bits(expected, c.run()));

  c.indices[3] = 4;  // one poisoned row selected
  EXPECT_FALSE(same_bits(expected, c.run()));
}

TEST(SparseAttentionLaws, StorageChangesNoBit) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    AttentionCase c = base_case(3);
    c.dtype = dtype;
    c.fill(3);
    const SparseAttentionResult expected = c.run();
    for (const Paging paging :
         {Paging{1, 0, 0}, Paging{2, 1, 0}, Paging{61, 0, 7}, Paging{64, 5, 3}}) {
      c.paging = paging;
      c.query_padding = paging.row_padding;
      EXPECT_TRUE(same_bits(expected, c.run())) << name_of(dtype) << ' ' << paging.page_size;
    }
    SparseAttentionProblem wrong = c.problem();
    wrong.kv.page_stride -= static_cast<std::int64_t>(size_of(dtype));
    EXPECT_FALSE(same_bits(expected, sparse_attention(wrong)));
  }
}

TEST(SparseAttentionLaws, IndexRowsMayBePadded) {
  AttentionCase c = base_case(4);
  const SparseAttentionResult expected = c.run();
  std::vector<std::int32_t> padded(index_of(c.tokens * 77), 3);
  for (std::int64_t t = 0; t < c.tokens; ++t)
    std::copy_n(c.indices.begin() + t * c.topk, c.topk, padded.begin() + t * 77);
  SparseAttentionProblem problem = c.problem();
  problem.indices = padded.data();
  problem.index_stride = 77;
  EXPECT_TRUE(same_bits(expected, sparse_attention(problem)));
  problem.index_stride = 76;
  EXPECT_FALSE(same_bits(expected, sparse_attention(problem)));
}

TEST(SparseAttentionLaws, RelabelledPagesChangeNoBit) {
  AttentionCase c = base_case(5);
  c.paging = {16, 0, 0};
  const SparseAttentionResult expected = c.run();
  std::vector<std::int32_t> page(8);
  std::iota(page.begin(), page.end(), 0);
  std::shuffle(page.begin(), page.end(), std::mt19937_64(5));
  const auto moved = [&](std::int64_t slot) {
    return page[index_of(slot / 16)] * 16 + static_cast<std::int32_t>(slot % 16);
  };
  AttentionCase relabelled = c;
  for (std::int64_t slot = 0; slot < c.slots; ++slot)
    std::copy_n(c.row(slot), c.qk_dim, relabelled.row(moved(slot)));
  EXPECT_FALSE(same_bits(expected, relabelled.run()));  // the indices still name the old places
  for (std::int32_t& index : relabelled.indices)
    if (index >= 0) index = moved(index);
  EXPECT_TRUE(same_bits(expected, relabelled.run()));
}

TEST(SparseAttentionLaws, ThreadsChangeNoBit) {
  AttentionCase c = base_case(6);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const SparseAttentionResult expected = c.run();
  for (const int n : {2, 3, 7}) {
    omp_set_num_threads(n);
    EXPECT_TRUE(same_bits(expected, c.run())) << n;
  }
  omp_set_num_threads(threads);
}

TEST(SparseAttentionLaws, ARowDependsOnNoOtherRowOrHead) {
  AttentionCase c = base_case(7);
  const SparseAttentionResult batch = c.run();
  SparseAttentionProblem solo = c.problem();
  solo.q.data = query_address(solo.q, 1, 33);
  solo.tokens = solo.heads = 1;
  solo.indices += c.topk;
  solo.topk_length += 1;
  solo.attn_sink += 33;
  const SparseAttentionResult row = sparse_attention(solo);
  const std::int64_t i = c.heads + 33;
  EXPECT_TRUE(
      same_bits(row.out, {batch.out.begin() + i * c.v_dim, batch.out.begin() + (i + 1) * c.v_dim}));
  EXPECT_TRUE(same_bits(row.lse, {batch.lse[index_of(i)]}));
  EXPECT_FALSE(same_bits(row.lse, {batch.lse[index_of(i - 1)]}));
}

TEST(SparseAttentionLaws, PowersOfTwoAreExact) {
  AttentionCase c = base_case(8);
  c.sink.clear();
  const SparseAttentionResult expected = c.run();
  const auto scaled = [&](float q_factor, float kv_factor, float scale_factor) {
    AttentionCase s = c;
    for (float& x : s.q) x *= q_factor;
    for (float& x : s.kv) x *= kv_factor;
    s.sm_scale *= scale_factor;
    return s.run();
  };
  EXPECT_TRUE(same_bits(expected, scaled(8.0f, 1.0f, 0.125f)));
  EXPECT_FALSE(same_bits(expected, scaled(8.0f, 1.0f, 0.25f)));

  const SparseAttentionResult large = scaled(1.0f, 0x1p20f, 0x1p-20f);
  EXPECT_TRUE(same_bits(expected.lse, large.lse));
  EXPECT_TRUE(same_bits(expected.max_logit, large.max_logit));
  std::vector<float> out = expected.out;
  for (float& x : out) x *= 0x1p20f;
  EXPECT_TRUE(same_bits(out, large.out));
  for (float& x : out) x *= 3.0f;
  EXPECT_FALSE(same_bits(out, scaled(1.0f, 3.0f * 0x1p20f, 0x1p-20f / 3.0f).out));
}

}  // namespace
}  // namespace mlacheck
