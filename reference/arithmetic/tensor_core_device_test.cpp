// The models against what an H200's tensor cores returned (1,200 tiles for each format).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "reference/arithmetic/instruction_set.h"
#include "reference/arithmetic/tensor_core_cases.h"

namespace mlacheck {
namespace {

using testing::MmaResult;
using testing::MmaTile;

constexpr int kTiles = 1200;

std::filesystem::path device_file(const std::string& name) {
  const char* shared = std::getenv("MLACHECK_SHARED");
  const std::filesystem::path folder =
      shared != nullptr ? shared : MLACHECK_SOURCE_DIR "/../shared";
  return folder / "device_vectors" / name;
}

struct Record {
  MmaTile tile;
  MmaResult result;
};

// Layout: A[tile][16][K], B[tile][K][8], C[tile][16][8], D[tile][16][8], little-endian.
template <class Bits>
std::vector<Record> read_records(const std::filesystem::path& path, int k) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Record> records(kTiles);
  const auto read = [&](auto& x) { file.read(reinterpret_cast<char*>(&x), sizeof x); };
  Bits bits{};
  for (Record& record : records)
    for (int m = 0; m < 16; ++m)
      for (int i = 0; i < k; ++i) {
        read(bits);
        record.tile.a[m][i] = bits;
      }
  for (Record& record : records)
    for (int i = 0; i < k; ++i)
      for (int n = 0; n < 8; ++n) {
        read(bits);
        record.tile.b[i][n] = bits;
      }
  for (Record& record : records) read(record.tile.c);
  for (Record& record : records) read(record.result.d);
  EXPECT_TRUE(file.good()) << path << ": shorter than 1,200 tiles";
  EXPECT_EQ(file.peek(), std::ifstream::traits_type::eof()) << path << ": longer than 1,200 tiles";
  return records;
}

struct Recording {
  std::string file;
  Mma mma;
};

class DeviceVectors : public ::testing::TestWithParam<Recording> {
 protected:
  void SetUp() override {
    const std::filesystem::path path = device_file(GetParam().file);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path.string() << " is not here";
    records_ = mma_k(GetParam().mma) == 16 ? read_records<std::uint16_t>(path, 16)
                                           : read_records<std::uint8_t>(path, 32);
  }

  template <class Model>
  int differences(const Model& model) const {
    int count = 0;
    for (const Record& record : records_)
      count += testing::count_differences(model(record.tile), record.result);
    return count;
  }

  int differences_under(const detail::SlowRules& rules) const {
    return differences([&](const MmaTile& tile) {
      return testing::run_model(rules, GetParam().mma.element, tile);
    });
  }

  std::vector<Record> records_;
};

INSTANTIATE_TEST_SUITE_P(
    H200, DeviceVectors,
    ::testing::Values(Recording{"h200_mma_f16.bin", {DType::f16, Lowering::hmma16_f25}},
                      Recording{"h200_mma_bf16.bin", {DType::bf16, Lowering::hmma16_f25}},
                      Recording{"h200_mma_e4m3.bin", {DType::e4m3, Lowering::fp8_emulated_sm90}}),
    [](const auto& param) { return std::string(name_of(param.param.mma.element)); });

TEST_P(DeviceVectors, IntegerModelReproducesEveryBit) {
  EXPECT_EQ(
      differences([](const MmaTile& tile) { return testing::run_slow(GetParam().mma, tile); }), 0);
}

TEST_P(DeviceVectors, FastFormReproducesEveryBit) {
  const InstructionSet before = instruction_set();
  for (InstructionSet isa : instruction_sets()) {
    use_instruction_set(isa);
    EXPECT_EQ(
        differences([](const MmaTile& tile) { return testing::run_fast(GetParam().mma, tile); }), 0)
        << name_of(isa);
  }
  use_instruction_set(before);
}

// On 120 tiles, 15,360 outputs.
TEST_P(DeviceVectors, WrongModelsFail) {
  records_.resize(120);
  const detail::SlowRules right{detail::rules_of(GetParam().mma)};
  ASSERT_EQ(differences_under(right), 0);
  const auto expect_failure = [&](const char* name, auto change) {
    detail::SlowRules wrong = right;
    change(wrong);
    EXPECT_GT(differences_under(wrong), 100) << name;
  };
  using Rules = detail::SlowRules;
  expect_failure("F = 24", [](Rules& r) { r.fraction_bits = 24; });
  expect_failure("chunks of 8", [](Rules& r) { r.products = 8; });
  expect_failure("to nearest", [](Rules& r) { r.round_to_nearest = true; });
  expect_failure("products normalised", [](Rules& r) { r.normalise_products = true; });
  expect_failure("terms cut by floor", [](Rules& r) { r.align_toward_minus = true; });
  expect_failure("C at the other end", [](Rules& r) { r.c_last = !r.c_last; });
  if (right.interleaved)
    expect_failure("k in plain order", [](Rules& r) { r.interleaved = false; });
}

}  // namespace
}  // namespace mlacheck
