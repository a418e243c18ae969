#include "cuda/plugin/kernel_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace mlacheck {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Three calls of two positions each, on one block table.
struct ThreeCalls {
  ThreeCalls() { std::iota(positions.begin(), positions.end(), 0); }

  std::unique_ptr<KernelCall> make(std::int32_t calls = 3) const {
    mlacheck_problem problem = {};
    problem.op = MLACHECK_MAP_SLOTS;
    problem.u.map_slots.count = 2;
    const KernelCall::Input inputs[] = {
        {CallTensor::positions, std::as_bytes(std::span(positions))},
        {CallTensor::block_table, std::as_bytes(std::span(table))}};
    const KernelCall::Output outputs[] = {{CallTensor::slots, positions.size() * 4}};
    return std::make_unique<KernelCall>(problem, inputs, outputs, CallSeries{calls, false});
  }

  std::vector<std::int32_t> positions = std::vector<std::int32_t>(6);
  std::vector<std::int32_t> table = {7, 8, 9};
};

std::vector<std::int32_t> ints(std::span<const std::byte> bytes) {
  std::vector<std::int32_t> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(KernelCall, DividesRowsAmongItsCallsButNotWhatTheyShare) {
  const auto call = ThreeCalls().make();
  EXPECT_THAT(ints(call->tensor(CallTensor::positions, 0)), ElementsAre(0, 1));
  EXPECT_THAT(ints(call->tensor(CallTensor::positions, 2)), ElementsAre(4, 5));
  for (const std::int32_t i : {0, 1, 2})
    EXPECT_THAT(ints(call->tensor(CallTensor::block_table, i)), ElementsAre(7, 8, 9));
  for (const std::int32_t i : {0, 1, 2}) {
    const auto address =
        reinterpret_cast<std::uintptr_t>(call->tensor(CallTensor::slots, i).data());
    EXPECT_EQ(address % kTensorAlignment, 0u);
  }
  EXPECT_THAT(call->trespasses(), IsEmpty());
}

TEST(KernelCall, SeesWhatAnyOfItsCallsWritesOutsideItsOutputs) {
  const auto call = ThreeCalls().make();
  const std::span<const std::byte> slots = call->tensor(CallTensor::slots, 1);
  const_cast<std::byte&>(slots.data()[slots.size()]) = std::byte{0};
  EXPECT_THAT(call->trespasses(), ElementsAre("wrote past the end of slots"));
}

TEST(KernelCall, SeesAChangedInputOfAnyOfItsCalls) {
  const auto call = ThreeCalls().make();
  const_cast<std::byte&>(call->tensor(CallTensor::positions, 2)[0]) ^= std::byte{1};
  EXPECT_THAT(call->trespasses(), ElementsAre("changed its input positions"));
}

TEST(KernelCall, GivesEachCallACacheOfItsOwnIfAskedFor) {
  const std::vector<std::byte> rows(64, std::byte{5}), out(12);
  const KernelCall::Input inputs[] = {{CallTensor::cache, rows}};
  const KernelCall::Output outputs[] = {{CallTensor::out, out.size()}};
  const KernelCall shared({}, inputs, outputs, {.calls = 3});
  EXPECT_EQ(shared.tensor(CallTensor::cache, 2).data(), shared.tensor(CallTensor::cache).data());
  const KernelCall own({}, inputs, outputs, {.calls = 3, .own_caches = true});
  EXPECT_NE(own.tensor(CallTensor::cache, 2).data(), own.tensor(CallTensor::cache).data());
  EXPECT_THAT(own.tensor(CallTensor::cache, 2), ::testing::Each(std::byte{5}));
}

TEST(KernelCall, RefusesRowsThatCannotBeDivided) {
  EXPECT_THROW(ThreeCalls().make(5), std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
