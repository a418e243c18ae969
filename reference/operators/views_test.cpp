#include "reference/operators/views.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/formats/bf16.h"
#include "reference/formats/e4m3.h"
#include "reference/formats/f16.h"

namespace mlacheck {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16, DType::e4m3};

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(Views, RowsOfPages) {
  // Two pages of 3 rows of 2 elements, rows 3 elements and pages 11 elements apart.
  std::vector<float> memory(22);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const RowsView view{memory.data(), DType::f32, 6, 3, 44, 12, 32};
  const auto first = [&](std::int64_t slot) {
    float x = 0;
    load_row(row_address(view, slot), view.dtype, 1, &x);
    return x;
  };
  EXPECT_EQ(first(0), 0);
  EXPECT_EQ(first(2), 6);
  EXPECT_EQ(first(3), 11);
  EXPECT_EQ(first(5), 17);
  EXPECT_EQ(row_scale(view, 0), 8);
  EXPECT_EQ(row_scale(view, 5), 21);
}

TEST(Views, FlatRows) {
  const std::vector<F16> memory(12);
  const RowsView view = flat_rows(memory.data(), DType::f16, 4, 3);
  EXPECT_EQ(row_address(view, 3) - row_address(view, 0), 18);
  EXPECT_EQ(row_scale(view, 3), 1.0f);
  EXPECT_NO_THROW(require_rows(view, 3, "rows"));
  EXPECT_NO_THROW(require_rows(flat_rows(nullptr, DType::f16, 0, 3), 3, "rows"));
  EXPECT_THROW(require_rows(view, 4, "rows"), std::invalid_argument);
}

TEST(Views, RowsThatSpanTooMuchAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  const float x = 0;
  const auto refusal = [&](const RowsView& view) -> std::string {
    try {
      require_rows(view, 1, "rows");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  RowsView view{&x, DType::f32, 8, 4, 16, 4};
  EXPECT_EQ(refusal(view), "");
  view.row_stride = kHuge;
  EXPECT_EQ(refusal(view),
            "rows.row_stride: expected at most 2^62 bytes in 4 rows, got rows of "
            "2305843009213693952");
  view = {&x, DType::f32, 16, 4, kHuge, 4};
  EXPECT_EQ(refusal(view),
            "rows.page_stride: expected at most 2^62 bytes in 3 pages, got pages of "
            "2305843009213693952");
}

// Offsets beyond 4 GiB; nothing is read.
TEST(Views, AddressesAre64Bit) {
  RowsView rows = flat_rows(nullptr, DType::bf16, std::int64_t{1} << 31, 576);
  const auto offset = [](const std::byte* address) {
    return std::bit_cast<std::uintptr_t>(address);
  };
  static_assert(sizeof(std::uintptr_t) == 8);
  rows.data = std::bit_cast<const void*>(std::uintptr_t{64});
  EXPECT_EQ(offset(row_address(rows, 2147483647)), 64 + 2147483647ull * 1152);
  rows.page_size = 64;
  rows.page_stride = 65 * 1152;
  EXPECT_EQ(offset(row_address(rows, 2147483647)), 64 + 33554431ull * 65 * 1152 + 63 * 1152);
  const QueryView q{rows.data, DType::f32, std::int64_t{64} * 576, 576};
  EXPECT_EQ(offset(query_address(q, 1 << 20, 63)), 64 + ((1ull << 20) * 64 + 63) * 576 * 4);
}

TEST(Views, LoadWidensExactly) {
  for (const DType dtype : kFloats) {
    const std::vector<float> values = {0.0f, -0.0f, 1.5f, -0.015625f, 448.0f};
    std::vector<std::byte> stored(values.size() * size_of(dtype) + 1);
    std::byte* unaligned = stored.data() + 1;
    store_row(values.data(), dtype, 5, unaligned);
    std::vector<float> loaded(5);
    load_row(unaligned, dtype, 5, loaded.data());
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(bits(loaded[i]), bits(values[i]));
    unaligned[0] = unaligned[size_of(dtype) - 1] = std::byte{0xff};  // not the value any more
    load_row(unaligned, dtype, 1, loaded.data());
    EXPECT_NE(bits(loaded[0]), bits(values[0]));
  }
}

TEST(Views, NanIsCanonical) {
  for (const DType dtype : kFloats) {
    const std::byte ones[4] = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
    float x = 0;
    load_row(ones, dtype, 1, &x);
    EXPECT_EQ(bits(x), 0x7fffffffu) << name_of(dtype);
    EXPECT_EQ(bits(round_to(dtype, -std::nanf("7"))), 0x7fffffffu) << name_of(dtype);
  }
  const float negative = std::bit_cast<float>(0xffc00001u);
  float stored = 0;
  store_row(&negative, DType::f32, 1, &stored);
  EXPECT_EQ(bits(stored), 0x7fffffffu);
}

TEST(Views, RoundingIsThatOfTheFormats) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {1.00390625f, 0.3f, -1e-8f, 70000.0f, 1e6f, infinity, -infinity}) {
    EXPECT_EQ(bits(round_to(DType::f32, x)), bits(x));
    EXPECT_EQ(bits(round_to(DType::f16, x)), bits(to_float(to_f16(x))));
    EXPECT_EQ(bits(round_to(DType::bf16, x)), bits(to_float(to_bf16(x))));
    EXPECT_EQ(bits(round_to(DType::e4m3, x)), bits(to_float(to_e4m3_saturating(x))));
    for (const DType dtype : kFloats) {
      std::byte stored[4];
      store_row(&x, dtype, 1, stored);
      float loaded = 0;
      load_row(stored, dtype, 1, &loaded);
      EXPECT_EQ(bits(loaded), bits(round_to(dtype, x)));
    }
  }
  EXPECT_NE(round_to(DType::f16, 0.3f), round_to(DType::bf16, 0.3f));
}

TEST(Views, OtherDtypesAreRefused) {
  float x = 0;
  for (const DType dtype : {DType::e8m0, DType::i32, DType::u8}) {
    EXPECT_THROW(load_row(&x, dtype, 1, &x), std::invalid_argument);
    EXPECT_THROW(store_row(&x, dtype, 1, &x), std::invalid_argument);
    EXPECT_THROW(round_to(dtype, x), std::invalid_argument);
    EXPECT_THROW(require_rows(flat_rows(&x, dtype, 1, 1), 1, "rows"), std::invalid_argument);
  }
}

}  // namespace
}  // namespace mlacheck
