// A contract is no licence: one that bounds nothing is refused, and what it cannot judge is not
// PASS.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reference/verdict/judge.h"

namespace mlacheck {
namespace {

using ::testing::HasSubstr;
using testing::make_problem;
using testing::Regime;
using testing::TestProblem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TestProblem flat_problem() {
  return make_problem(Regime::flat, {.heads = 4, .keys = 600, .qk_dim = 144, .v_dim = 128}, 7);
}

// Statuses of an output of zeros, out and lse.
std::vector<Status> statuses_of_zeros(const NumericsContract& contract) {
  TestProblem test = flat_problem();
  const auto rows = static_cast<std::size_t>(test.problem.tokens * test.problem.heads);
  const std::vector<float> out(rows * 128), lse(rows);
  std::vector<Status> statuses;
  for (const Finding& finding :
       check_sparse_attention(test.view(), contract, {out.data(), lse.data(), nullptr}))
    statuses.push_back(finding.status);
  return statuses;
}

struct Loose {
  std::string field;  // that the refusal names
  NumericsContract contract;
};

std::vector<Loose> refused_contracts() {
  std::vector<Loose> loose;
  const auto add = [&](std::string field) -> NumericsContract& {
    return loose.emplace_back(Loose{std::move(field), testing::tensor_core_contract()}).contract;
  };
  add("qk.block").qk = {.block = 1024, .rounding = Rounding::toward_zero, .alignment_bits = 8};
  NumericsContract& floor = add("weight_scale");
  floor.weight_dtype = DType::e4m3;
  floor.weight_scale = 0x1p-30;
  NumericsContract& rescales = add("tile");
  rescales.exp_error = 0x1p-8;
  rescales.tile = 1;
  add("max_headroom").max_headroom = 64;
  return loose;
}

TEST(LooseContract, IsRefusedWithItsLimit) {
  for (const auto& [field, contract] : refused_contracts()) {
    try {
      require_valid(contract);
      ADD_FAILURE() << field;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr(field));
    }
    EXPECT_THROW(statuses_of_zeros(contract), std::invalid_argument);
  }
}

// Within every limit, and still too loose for 600 keys in sequence: gamma has no value.
TEST(LooseContract, MistrustsZerosWithoutABound) {
  NumericsContract contract = testing::tensor_core_contract();
  contract.pv =
      contract.weight_sum = {.block = 2, .rounding = Rounding::toward_zero, .alignment_bits = 8};
  require_valid(contract);
  for (const Status status : statuses_of_zeros(contract)) EXPECT_EQ(status, Status::mistrusted);
}

// The bound is finite and larger than what it bounds.
TEST(LooseContract, MistrustsZerosWithinAWideBound) {
  NumericsContract contract = testing::tensor_core_contract();
  contract.qk = {.block = 2, .rounding = Rounding::toward_zero, .alignment_bits = 8};
  for (const Status status : statuses_of_zeros(contract)) EXPECT_NE(status, Status::pass);
}

TEST(LooseContract, HonestOnesFailZeros) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::e4m3}) {
    NumericsContract contract = testing::tensor_core_contract(dtype);
    if (dtype == DType::e4m3) contract.weight_scale = 256;
    for (const Status status : statuses_of_zeros(contract)) EXPECT_GE(status, Status::improbable);
  }
}

TEST(LooseContract, AnUnboundedElementIsNoEvidence) {
  for (const double core : {kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    const ElementBound unbounded{1, core, core, {}};
    for (const float got : {0.0f, 1.0f, std::numeric_limits<float>::infinity()})
      EXPECT_EQ(judge(unbounded, DType::f32, got).status, Status::mistrusted);
    EXPECT_EQ(judge(unbounded, DType::f32, std::nanf("")).status, Status::fail);
    Tally tally(DType::f32);
    for (std::int64_t i = 0; i < 100; ++i) tally.add({i, 0, 0}, {1, 0.1, 0.1, {}}, 1);
    EXPECT_EQ(tally.finding("x").status, Status::pass);
    tally.add({100, 0, 0}, unbounded, 1);
    EXPECT_EQ(tally.finding("x").status, Status::mistrusted);
    EXPECT_THAT(to_string(tally.finding("x")), HasSubstr("1 elements have no bound"));
  }
}

TEST(LooseContract, ZerosThatWouldPassAreNoEvidence) {
  Tally tally(DType::f32), other(DType::f32);
  const auto add = [](Tally& to, double expected, double radius) {
    to.add({0, 0, 0}, {expected, radius, radius, {}}, static_cast<float>(expected));
  };
  for (int i = 0; i < 100; ++i) add(tally, 0, 0);  // zeros that are right
  EXPECT_EQ(tally.finding("x").status, Status::pass);
  for (int i = 0; i < 20; ++i) add(other, 1, 2);
  EXPECT_EQ(other.finding("x").status, Status::mistrusted);
  EXPECT_THAT(to_string(other.finding("x")), HasSubstr("a zeroed output would pass"));
  tally.merge(other);
  EXPECT_EQ(tally.finding("x").status, Status::mistrusted);
  for (int i = 0; i < 4; ++i) add(tally, 1, 0.5);
  EXPECT_EQ(tally.finding("x").status, Status::pass);
}

// Where a kernel flushes subnormals and all that it returns is one.
TEST(LooseContract, NegligibleOutputsThatCouldBeAnythingAreNoEvidence) {
  const auto tally_of = [](double expected, double radius) {
    Tally tally(DType::f32);
    for (std::int64_t i = 0; i < 10; ++i) tally.add({i, 0, 0}, {expected, radius, radius, {}}, 0);
    return tally;
  };
  Tally flushed = tally_of(0x1p-127, 0x1p-125);
  EXPECT_EQ(flushed.finding("x").status, Status::mistrusted);
  EXPECT_THAT(to_string(flushed.finding("x")), HasSubstr("zeroed or negated output would pass"));
  // A sink's factor may leave 0 of a value, not its negative.
  EXPECT_EQ(tally_of(0x1p-127, 0x1p-127).finding("x").status, Status::pass);
  flushed.merge(tally_of(0, 0));
  EXPECT_EQ(flushed.finding("x").status, Status::mistrusted);
  flushed.add({10, 0, 0}, {1, 0.5, 0.5, {}}, 1);
  EXPECT_EQ(flushed.finding("x").status, Status::pass);
}

}  // namespace
}  // namespace mlacheck
