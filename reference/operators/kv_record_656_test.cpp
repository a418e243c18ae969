#include "reference/operators/kv_record_656.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reference/operators/views.h"

namespace mlacheck::kv_record_656 {
namespace {

constexpr Writer kWriters[] = {Writer::p2_floor_on_amax, Writer::p2_floor_on_scale, Writer::arb};
constexpr Reader kReaders[] = {Reader::fp32_product, Reader::bf16_scale, Reader::e8m0_scale};
constexpr std::byte kUntouched{0xa5};

// Two records a page, with an unused stretch of 100 bytes after them.
constexpr PageLayout kLayout{.slots = 6, .page_size = 2, .page_stride = 2 * kBytes + 100};

struct Cache {
  std::vector<std::byte> bytes = std::vector<std::byte>(3 * kLayout.page_stride, kUntouched);

  void write(std::int32_t slot, const std::vector<float>& row, Writer writer) {
    write_cache(bytes.data(), kLayout, std::vector{slot}, row, writer);
  }
  std::vector<float> read(std::int32_t slot, Reader reader) const {
    std::vector<float> row(kDim);
    read_cache(bytes.data(), kLayout, std::vector{slot}, reader, row);
    return row;
  }
  std::uint8_t byte(std::int64_t offset) const {
    return std::to_integer<std::uint8_t>(bytes[offset]);
  }
  float scale(std::int64_t record, std::int64_t tile) const {
    float scale = 0;
    std::memcpy(&scale, bytes.data() + record + 512 + 4 * tile, 4);
    return scale;
  }
};

// Smooth bf16 values whose tiles have different magnitudes.
std::vector<float> sample_row(float amplitude) {
  std::vector<float> row(kDim);
  for (std::int64_t i = 0; i < kDim; ++i) {
    const auto place = static_cast<float>((i * 37) % 101 - 50) / 50.0f;
    row[i] = round_to(DType::bf16, amplitude * place * (1.0f + static_cast<float>(i / kTile)));
  }
  return row;
}

std::vector<float> zeros() { return std::vector<float>(kDim, 0.0f); }

TEST(KvRecord656, KnownBytes) {
  std::vector<float> row = zeros();
  row[0] = 448.0f;  // tile 0: s = 1 under each rule
  row[1] = -1.0f;
  row[128] = 3.0f;  // tile 1: P2 s = 2^-7, 3 / s = 384; ARB s = 3 / 448
  row[512] = 1.0f;  // rope
  row[575] = -2.0f;
  const std::int64_t record = kLayout.page_stride + kBytes;  // slot 3: page 1, place 1
  for (Writer writer : kWriters) {
    Cache cache;
    cache.write(3, row, writer);
    EXPECT_EQ(cache.byte(record + 0), 0x7e);
    EXPECT_EQ(cache.byte(record + 1), 0xb8);
    EXPECT_EQ(cache.byte(record + 2), 0x00);
    EXPECT_EQ(cache.scale(record, 0), 1.0f);
    const bool arb = writer == Writer::arb;
    EXPECT_EQ(cache.byte(record + 128), arb ? 0x7e : 0x7c);
    EXPECT_EQ(cache.scale(record, 1), arb ? 3.0f / 448.0f : 0x1p-7f);
    EXPECT_EQ(cache.byte(record + 528), 0x80);  // 1 = 0x3f80, little endian
    EXPECT_EQ(cache.byte(record + 529), 0x3f);
    EXPECT_EQ(cache.byte(record + 654), 0x00);  // -2 = 0xc000
    EXPECT_EQ(cache.byte(record + 655), 0xc0);
  }
}

TEST(KvRecord656, FloorsOfAllZeroTiles) {
  const float floors[] = {0x1p-22f, 0x1p-13f, FLT_MIN};
  for (int w = 0; w < 3; ++w) {
    Cache cache;
    cache.write(0, zeros(), kWriters[w]);
    for (std::int64_t tile = 0; tile < 4; ++tile) EXPECT_EQ(cache.scale(0, tile), floors[w]);
    for (Reader reader : kReaders) EXPECT_EQ(cache.read(0, reader), zeros());
  }
}

// The floor on the scale binds already at amax 0.0448: of a tile at 0.0217 it leaves fewer values
// than the floor on amax.
TEST(KvRecord656, FloorOnScaleCoarsensShallowLayers) {
  std::vector<float> row = zeros();
  row[0] = 0.0217f;
  Cache on_amax, on_scale;
  on_amax.write(0, row, Writer::p2_floor_on_amax);
  on_scale.write(0, row, Writer::p2_floor_on_scale);
  EXPECT_EQ(on_amax.scale(0, 0), 0x1p-14f);
  EXPECT_EQ(on_scale.scale(0, 0), 0x1p-13f);
}

// Whether |x - read| stays within half an e4m3 step of x / s, times s (2^-4 relative, or 2^-10 s
// among subnormals), and the reader's own roundings: 2^-9 each for a bf16 scale and product where
// they are not exact.
bool round_trip_holds(const std::vector<float>& row, Writer writer, Reader reader) {
  const bool exact_scale = writer != Writer::arb || reader == Reader::fp32_product;
  const float reading = exact_scale ? 0x1p-22f : 0x1.02p-8f;
  Cache cache;
  cache.write(5, row, writer);
  const std::vector<float> got = cache.read(5, reader);
  for (std::int64_t i = 0; i < kLatent; ++i) {
    const float x = std::fabs(row[i]);
    const float scale = cache.scale(2 * kLayout.page_stride + kBytes, i / kTile);
    const float storing = std::fmax(x * 0x1p-4f, scale * 0x1p-10f);
    if (std::fabs(got[i] - row[i]) > storing * (1 + reading) + x * reading) return false;
  }
  return std::equal(row.begin() + kLatent, row.end(), got.begin() + kLatent);
}

TEST(KvRecord656, RoundTripWithinItsBoundForAllButTheDangerousPair) {
  for (float amplitude : {0.01f, 0.7f, 300.0f})
    for (Writer writer : kWriters)
      for (Reader reader : kReaders) {
        const bool dangerous = writer == Writer::arb && reader == Reader::e8m0_scale;
        EXPECT_EQ(round_trip_holds(sample_row(amplitude), writer, reader), !dangerous)
            << amplitude << ", writer " << static_cast<int>(writer) << ", reader "
            << static_cast<int>(reader);
      }
}

TEST(KvRecord656, ReadersAgreeOnP2Records) {
  const std::vector<float> row = sample_row(0.7f);
  Cache cache;
  cache.write(1, row, Writer::p2_floor_on_amax);
  const std::vector<float> plain = cache.read(1, Reader::fp32_product);
  EXPECT_EQ(cache.read(1, Reader::bf16_scale), plain);
  EXPECT_EQ(cache.read(1, Reader::e8m0_scale), plain);
}

// Each reader's formula on one ARB value: s = 1.75 * (1 + 2^-9), q = 240 (0x77).
TEST(KvRecord656, ReadersDifferOnArbRecords) {
  Cache cache;
  cache.write(0, zeros(), Writer::arb);
  const float scale = 0x1.c0ep0f;
  cache.bytes[0] = std::byte{0x77};
  std::memcpy(cache.bytes.data() + 512, &scale, 4);
  EXPECT_EQ(cache.read(0, Reader::fp32_product)[0], 240.0f * 0x1.c0ep0f);
  EXPECT_EQ(cache.read(0, Reader::bf16_scale)[0], round_to(DType::bf16, 240.0f * 0x1.c0p0f));
  EXPECT_EQ(cache.read(0, Reader::e8m0_scale)[0], 240.0f);
}

// Written by ARB, read through a truncated e8m0: everything loses the scale's fraction, up to a
// factor of 2.
TEST(KvRecord656, ArbRecordReadThroughE8m0LosesUpToAFactorOf2) {
  for (const auto& [amax, factor] : {std::pair{448.0f, 1.0f}, {672.0f, 1.5f}, {892.0f, 1.991f}}) {
    std::vector<float> row = zeros();
    row[0] = amax;
    Cache cache;
    cache.write(0, row, Writer::arb);
    EXPECT_EQ(cache.read(0, Reader::fp32_product)[0], amax);
    EXPECT_NEAR(amax / cache.read(0, Reader::e8m0_scale)[0], factor, 0.001f);
  }
}

TEST(KvRecord656, WritesNothingButTheRecord) {
  Cache cache;
  cache.write(3, sample_row(1.0f), Writer::arb);
  const std::int64_t record = kLayout.page_stride + kBytes;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(cache.bytes.size()); ++i) {
    if (i >= record && i < record + kBytes) continue;
    ASSERT_EQ(cache.bytes[i], kUntouched) << i;
  }
}

TEST(KvRecord656, SkipsMinusOneAndRefusesTheRestBeforeWriting) {
  Cache cache;
  const std::vector<std::byte> before = cache.bytes;
  cache.write(-1, sample_row(1.0f), Writer::arb);
  EXPECT_EQ(cache.bytes, before);
  const std::vector<float> rows(2 * kDim, 1.0f);
  for (std::int32_t wrong : {-2, 6, std::numeric_limits<std::int32_t>::max()})
    EXPECT_THROW(write_cache(cache.bytes.data(), kLayout, std::vector{0, wrong}, rows, Writer::arb),
                 std::invalid_argument);
  EXPECT_EQ(cache.bytes, before);

  std::vector<float> row(kDim, 7.0f);
  read_cache(cache.bytes.data(), kLayout, std::vector{-1}, Reader::fp32_product, row);
  EXPECT_EQ(row, std::vector<float>(kDim, 7.0f));
  EXPECT_THROW(read_cache(cache.bytes.data(), kLayout, std::vector{6}, Reader::fp32_product, row),
               std::invalid_argument);
}

TEST(KvRecord656, GathersAndScattersByPage) {
  Cache cache;
  std::vector<float> rows;
  for (float amplitude : {1.0f, 2.0f, 4.0f})
    for (float x : sample_row(amplitude)) rows.push_back(x);
  write_cache(cache.bytes.data(), kLayout, std::vector{4, 1, 2}, rows, Writer::p2_floor_on_amax);
  std::vector<float> swapped(2 * kDim);
  read_cache(cache.bytes.data(), kLayout, std::vector{2, 4}, Reader::fp32_product, swapped);
  for (std::int64_t i = 0; i < kDim; ++i) ASSERT_EQ(swapped[i], 4 * swapped[kDim + i]) << i;
}

TEST(KvRecord656, NanStaysAlone) {
  std::vector<float> row = sample_row(1.0f);
  const std::vector<float> clean = row;
  row[5] = std::nanf("");
  row[512] = -std::nanf("");
  for (Writer writer : kWriters)
    for (Reader reader : kReaders) {
      Cache cache, clean_cache;
      cache.write(0, row, writer);
      clean_cache.write(0, clean, writer);
      const std::vector<float> got = cache.read(0, reader);
      const std::vector<float> expected = clean_cache.read(0, reader);
      for (std::int64_t i = 0; i < kDim; ++i)
        if (i == 5 || i == 512)
          ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), 0x7fffffffu) << i;
        else
          ASSERT_EQ(got[i], expected[i]) << i;
    }
}

TEST(KvRecord656, InfinityMakesItsTileNan) {
  std::vector<float> row = sample_row(1.0f);
  row[130] = -std::numeric_limits<float>::infinity();
  for (Writer writer : kWriters) {
    Cache cache;
    cache.write(0, row, writer);
    const std::vector<float> got = cache.read(0, Reader::fp32_product);
    for (std::int64_t i = 0; i < kLatent; ++i) ASSERT_EQ(std::isnan(got[i]), i / kTile == 1) << i;
    // e8m0 has no infinity: the tile's finite values come back as zeros.
    const std::vector<float> truncated = cache.read(0, Reader::e8m0_scale);
    EXPECT_TRUE(std::isnan(truncated[130]));
    EXPECT_EQ(truncated[131], 0.0f);
  }
}

}  // namespace
}  // namespace mlacheck::kv_record_656
