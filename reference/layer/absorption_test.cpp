#include "reference/layer/absorption.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "reference/layer/layer_testing.h"

namespace mlacheck {
namespace {

using testing::normals;
using testing::values_of;

class Absorption : public ::testing::TestWithParam<const char*> {
 protected:
  ModelSizes sizes = model_sizes(GetParam());
  std::int64_t heads = sizes.num_attention_heads;
  std::int64_t nope = sizes.qk_nope_head_dim;
  std::int64_t v = sizes.v_head_dim;
  std::int64_t rank = sizes.kv_lora_rank;
  Weight kv_b = testing::random_weights(sizes, false, 1).kv_b_proj;
  std::vector<float> w = values_of(kv_b);

  Matrix random_rows(std::int64_t cols, std::uint64_t seed) const {
    Matrix m(3, cols);
    m.data = normals(m.data.size(), 1, seed);
    return m;
  }
  // Element [row, c] of head h's part of kv_b_proj, nope rows first.
  double kv_b_at(std::int64_t h, std::int64_t row, std::int64_t c) const {
    return static_cast<double>(w[static_cast<std::size_t>((h * (nope + v) + row) * rank + c)]);
  }
};

TEST_P(Absorption, QueriesMeetTheTransposedKeyHalf) {
  const Matrix q = random_rows(heads * sizes.qk_head_dim(), 2);
  const Matrix result = absorb_queries(q, kv_b, sizes, DType::f32);
  const Matrix rounded = absorb_queries(q, kv_b, sizes, DType::bf16);
  ASSERT_EQ(result.cols, heads * rank);
  for (std::int64_t t = 0; t < q.rows; ++t)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t c = 0; c < rank; c += 7) {
        double exact = 0;
        for (std::int64_t j = 0; j < nope; ++j)
          exact += static_cast<double>(q.row(t)[h * sizes.qk_head_dim() + j]) * kv_b_at(h, j, c);
        const float got = result.row(t)[h * rank + c];
        EXPECT_NEAR(static_cast<double>(got), exact, 2e-6);
        EXPECT_EQ(rounded.row(t)[h * rank + c], to_float(to_bf16(got)));
      }
}

TEST_P(Absorption, ValuesComeFromTheSecondHalf) {
  const Matrix latent = random_rows(heads * rank, 3);
  const Matrix result = expand_values(latent, kv_b, sizes, DType::f32);
  const Matrix rounded = expand_values(latent, kv_b, sizes, DType::bf16);
  ASSERT_EQ(result.cols, heads * v);
  for (std::int64_t t = 0; t < latent.rows; ++t)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < v; ++i) {
        double exact = 0;
        for (std::int64_t c = 0; c < rank; ++c)
          exact += static_cast<double>(latent.row(t)[h * rank + c]) * kv_b_at(h, nope + i, c);
        const float got = result.row(t)[h * v + i];
        EXPECT_NEAR(static_cast<double>(got), exact, 5e-6);
        EXPECT_EQ(rounded.row(t)[h * v + i], to_float(to_bf16(got)));
      }
}

TEST_P(Absorption, RefusesOtherSizes) {
  EXPECT_THROW(absorb_queries(random_rows(heads * nope, 4), kv_b, sizes, DType::f32),
               std::invalid_argument);
  EXPECT_THROW(expand_values(random_rows(heads * v, 4), kv_b, sizes, DType::f32),
               std::invalid_argument);
  Weight wrong = kv_b;
  wrong.rows -= 1;
  EXPECT_THROW(expand_values(random_rows(heads * rank, 4), wrong, sizes, DType::f32),
               std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Models, Absorption, ::testing::Values("glm5:tiny", "dsv32:tiny"));

}  // namespace
}  // namespace mlacheck
