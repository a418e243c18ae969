#include "reference/formats/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace mlacheck {
namespace {

TEST(DType, NamesAreDistinctAndParseBack) {
  std::set<std::string_view> names;
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e8m0,
                      DType::i64, DType::i32, DType::u8}) {
    EXPECT_TRUE(names.insert(name_of(dtype)).second) << name_of(dtype);
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  }
  for (std::string_view wrong : {"", "F32", "f32 ", "float", "f8"})
    EXPECT_EQ(parse_dtype(wrong), std::nullopt) << wrong;
}

TEST(DType, Sizes) {
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::i64), 8u);
  EXPECT_EQ(size_of(DType::f32), 4u);
  EXPECT_EQ(size_of(DType::i32), 4u);
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::e4m3), 1u);
  EXPECT_EQ(size_of(DType::e8m0), 1u);
  EXPECT_EQ(size_of(DType::u8), 1u);
}

}  // namespace
}  // namespace mlacheck
