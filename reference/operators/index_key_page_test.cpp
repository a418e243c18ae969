#include "reference/operators/index_key_page.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace mlacheck::index_key_page {
namespace {

constexpr float kFloor = 1e-4f;
constexpr std::byte kUntouched{0xa5};

// Four keys a page, 20 unused bytes after them.
constexpr PageLayout kLayout{.slots = 8, .page_size = 4, .page_stride = 4 * kBytesPerSlot + 20};

std::vector<std::byte> untouched_cache() {
  return std::vector<std::byte>(2 * kLayout.page_stride, kUntouched);
}

std::vector<float> sample_key(float amplitude) {
  std::vector<float> key(kDim);
  for (std::int64_t d = 0; d < kDim; ++d)
    key[d] = round_to(DType::bf16, amplitude * static_cast<float>((d * 29) % 113 - 56) / 56.0f);
  return key;
}

std::vector<float> read_one(const std::vector<std::byte>& cache, std::int32_t slot) {
  std::vector<float> key(kDim);
  read_cache(cache.data(), kLayout, std::vector{slot}, key);
  return key;
}

float float_at(const std::vector<std::byte>& cache, std::int64_t offset) {
  float x = 0;
  std::memcpy(&x, cache.data() + offset, sizeof(x));
  return x;
}

TEST(IndexKeyPage, KnownBytes) {
  std::vector<float> key(kDim, 0.0f);
  key[0] = 3.0f;     // s = 2^-7, 3 / s = 384 = 0x7c
  key[127] = -1.0f;  // -128 = 0xf0
  std::vector<std::byte> cache = untouched_cache();
  write_cache(cache.data(), kLayout, std::vector{6}, key, kFloor);  // page 1, place 2
  const std::int64_t page = kLayout.page_stride;
  EXPECT_EQ(cache[page + 2 * 128], std::byte{0x7c});
  EXPECT_EQ(cache[page + 2 * 128 + 1], std::byte{0x00});
  EXPECT_EQ(cache[page + 2 * 128 + 127], std::byte{0xf0});
  EXPECT_EQ(float_at(cache, page + 4 * 128 + 2 * 4), 0x1p-7f);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(cache.size()); ++i) {
    const bool value = i >= page + 2 * 128 && i < page + 3 * 128;
    const bool scale = i >= page + 4 * 128 + 8 && i < page + 4 * 128 + 12;
    if (!value && !scale) {
      ASSERT_EQ(cache[i], kUntouched) << i;
    }
  }
}

// A reader that takes 128 + 4 bytes a token finds other numbers, at every place of a page but none
// it could trust.
TEST(IndexKeyPage, ValuesFirstIsNotInterleaved) {
  std::vector<std::byte> cache = untouched_cache();
  for (std::int32_t slot = 0; slot < 4; ++slot)
    write_cache(cache.data(), kLayout, std::vector{slot},
                sample_key(1.0f + static_cast<float>(slot)), kFloor);
  RowsView interleaved = view(cache.data(), kLayout);
  interleaved.row_stride = kBytesPerSlot;
  for (std::int32_t slot = 0; slot < 4; ++slot) {
    std::vector<float> values(kDim);
    load_row(row_address(interleaved, slot), DType::e4m3, kDim, values.data());
    const float scale = float_at(cache, slot * kBytesPerSlot + kDim);
    for (float& x : values) x *= scale;
    EXPECT_NE(values, read_one(cache, slot)) << slot;
  }
}

TEST(IndexKeyPage, ViewGivesTheSameKeysAndScales) {
  std::vector<std::byte> cache = untouched_cache();
  write_cache(
      cache.data(), kLayout, std::vector{0, 7},
      [] {
        std::vector<float> keys = sample_key(1.0f);
        for (float x : sample_key(50.0f)) keys.push_back(x);
        return keys;
      }(),
      kFloor);
  const RowsView rows = view(cache.data(), kLayout);
  EXPECT_EQ(row_scale(rows, 0), 0x1p-8f);
  EXPECT_EQ(row_scale(rows, 7), 0x1p-3f);
  std::vector<float> values(kDim);
  load_row(row_address(rows, 7), rows.dtype, kDim, values.data());
  for (float& x : values) x *= 0x1p-3f;
  EXPECT_EQ(values, read_one(cache, 7));
}

// P2 rounds once: within 2^-4 of x, or half the smallest e4m3 step.
bool within_bound(const std::vector<float>& key, const std::vector<float>& got, float scale) {
  for (std::int64_t d = 0; d < kDim; ++d)
    if (std::fabs(got[d] - key[d]) > std::fmax(std::fabs(key[d]) * 0x1p-4f, scale * 0x1p-10f))
      return false;
  return true;
}

TEST(IndexKeyPage, RoundTripWithinItsBound) {
  for (float amplitude : {1e-5f, 0.3f, 1.0f, 7.0f, 1e6f}) {
    const std::vector<float> key = sample_key(amplitude);
    std::vector<std::byte> cache = untouched_cache();
    write_cache(cache.data(), kLayout, std::vector{5}, key, kFloor);
    const float scale = row_scale(view(cache.data(), kLayout), 5);
    EXPECT_TRUE(within_bound(key, read_one(cache, 5), scale)) << amplitude;
    const float doubled = 2 * scale;
    std::memcpy(cache.data() + kLayout.page_stride + 4 * 128 + 4, &doubled, 4);
    EXPECT_FALSE(within_bound(key, read_one(cache, 5), scale)) << amplitude;
  }
}

TEST(IndexKeyPage, TheFloorDecidesSmallKeys) {
  const std::vector<float> zero(kDim, 0.0f);
  std::vector<std::byte> cache = untouched_cache();
  write_cache(cache.data(), kLayout, std::vector{0}, zero, 1e-4f);
  write_cache(cache.data(), kLayout, std::vector{1}, zero, 1e-10f);
  EXPECT_EQ(row_scale(view(cache.data(), kLayout), 0), 0x1p-22f);
  EXPECT_EQ(row_scale(view(cache.data(), kLayout), 1), 0x1p-42f);
  EXPECT_EQ(read_one(cache, 0), zero);
  EXPECT_EQ(read_one(cache, 1), zero);
}

TEST(IndexKeyPage, SkipsMinusOneAndRefusesTheRestBeforeWriting) {
  std::vector<std::byte> cache = untouched_cache();
  const std::vector<float> keys(2 * kDim, 1.0f);
  write_cache(cache.data(), kLayout, std::vector{-1, -1}, keys, kFloor);
  for (std::int32_t wrong : {-2, 8})
    EXPECT_THROW(write_cache(cache.data(), kLayout, std::vector{0, wrong}, keys, kFloor),
                 std::invalid_argument);
  for (float wrong : {0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::nanf("")})
    EXPECT_THROW(write_cache(cache.data(), kLayout, std::vector{0, 1}, keys, wrong),
                 std::invalid_argument);
  EXPECT_EQ(cache, untouched_cache());

  std::vector<float> key(kDim, 7.0f);
  read_cache(cache.data(), kLayout, std::vector{-1}, key);
  EXPECT_EQ(key, std::vector<float>(kDim, 7.0f));
  EXPECT_THROW(read_cache(cache.data(), kLayout, std::vector{8}, key), std::invalid_argument);
}

TEST(IndexKeyPage, NanStaysAloneAndInfinityTakesItsKey) {
  std::vector<float> key = sample_key(1.0f);
  std::vector<std::byte> cache = untouched_cache();
  write_cache(cache.data(), kLayout, std::vector{0}, key, kFloor);
  const std::vector<float> clean = read_one(cache, 0);
  key[3] = -std::nanf("");
  write_cache(cache.data(), kLayout, std::vector{1}, key, kFloor);
  const std::vector<float> got = read_one(cache, 1);
  for (std::int64_t d = 0; d < kDim; ++d)
    if (d == 3)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got[d]), 0x7fffffffu);
    else
      EXPECT_EQ(got[d], clean[d]) << d;

  key[3] = std::numeric_limits<float>::infinity();
  write_cache(cache.data(), kLayout, std::vector{2}, key, kFloor);
  for (float x : read_one(cache, 2)) EXPECT_EQ(std::bit_cast<std::uint32_t>(x), 0x7fffffffu);
  EXPECT_EQ(read_one(cache, 0), clean);
}

}  // namespace
}  // namespace mlacheck::index_key_page
