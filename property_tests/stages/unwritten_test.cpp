// Calls of which a part is as it was before: what was never written is named, and nothing else.

#include "property_tests/stages/unwritten.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tools/judgements.h"
#include "tools/kernel_bridge.h"

namespace mlacheck::stages {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <class Case, class R>
Case case_of(const std::string& line) {
  return Case(std::get<R>(parse_recipe(line)));
}

// As a kernel does that stops before the last `left` bytes.
void write(const KernelCall& call, CallTensor tensor, std::size_t left = 0) {
  const std::span<const std::byte> bytes = call.tensor(tensor);
  std::memset(const_cast<std::byte*>(bytes.data()), 0, bytes.size() - left);
}

std::vector<std::string> named(const std::vector<Suspect>& suspects) {
  std::vector<std::string> names;
  for (const Suspect& suspect : suspects) names.push_back(suspect.stage + ": " + suspect.as_if);
  return names;
}

TEST(Unwritten, OutputsOfAttention) {
  const auto c = case_of<SparseAttentionCase, SparseAttentionRecipe>(
      "mlacheck1 op=sparse_attention t=3 h=2 k=8 n=10");
  const auto call = make_call(c);
  write(*call, CallTensor::out, 2);
  write(*call, CallTensor::lse);
  write(*call, CallTensor::max_logit, 4);
  EXPECT_THAT(named(unwritten(*call)),
              ElementsAre("output: elements of out were never written",
                          "output: elements of max_logit were never written"));
  write(*call, CallTensor::out);
  write(*call, CallTensor::max_logit);
  EXPECT_THAT(unwritten(*call), IsEmpty());
}

// Outside of their ranges where they are masked: the last row of a causal range ends with its keys.
TEST(Unwritten, Scores) {
  const auto c = case_of<IndexScoresCase, IndexScoresRecipe>(
      "mlacheck1 op=index_scores t=3 h=4 n=70 range=causal");
  const auto call = make_call(c.problem);
  const auto never = ElementsAre("output: elements of scores_out were never written");
  write(*call, CallTensor::scores_out, 4);
  EXPECT_THAT(named(unwritten(*call, c.problem, false)), never);
  EXPECT_THAT(named(unwritten(*call, c.problem, true)), never);
  std::memset(const_cast<std::byte*>(call->tensor(CallTensor::scores_out).data()), 0, 3 * 70 * 4);
  auto* first_row = const_cast<std::byte*>(call->tensor(CallTensor::scores_out).data());
  std::memset(first_row + 69 * 4, static_cast<int>(kPoison), 4);
  EXPECT_THAT(unwritten(*call, c.problem, false), IsEmpty());
  EXPECT_THAT(named(unwritten(*call, c.problem, true)), never);
}

TEST(Unwritten, Selections) {
  const auto c = case_of<TopKCase, TopKRecipe>("mlacheck1 op=top_k t=1 n=600 k=200");
  const auto call = make_call(problem_of(c));
  write(*call, CallTensor::selected, 4);
  EXPECT_THAT(named(unwritten(*call)),
              ElementsAre("output: elements of selected were never written"));
  write(*call, CallTensor::selected);
  EXPECT_THAT(unwritten(*call), IsEmpty());
}

}  // namespace
}  // namespace mlacheck::stages
