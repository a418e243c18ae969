#include "cuda/plugin/kernel_declaration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mlacheck {
namespace {

using ::testing::HasSubstr;

mlacheck_kernel honest_kernel() {
  constexpr mlacheck_accumulation kSum = {16, MLACHECK_SUM_SEQUENTIAL, 1, 25, 0};
  mlacheck_kernel kernel = {};
  kernel.struct_size = sizeof(kernel);
  kernel.op = MLACHECK_SPARSE_ATTENTION;
  kernel.memory = MLACHECK_HOST;
  kernel.conventions.struct_size = sizeof(kernel.conventions);
  kernel.conventions.lse_base = MLACHECK_LSE_NATURAL;
  kernel.conventions.lse_empty = MLACHECK_EMPTY_MINUS_INF;
  mlacheck_contract& contract = kernel.contract;
  contract.struct_size = sizeof(contract);
  contract.qk = contract.pv = contract.weight_sum = kSum;
  contract.index_dot = contract.index_heads = kSum;
  contract.weight_dtype = MLACHECK_E4M3;
  contract.weight_scale = 256;
  contract.partial_dtype = contract.score_dtype = MLACHECK_F32;
  contract.max_splits = 1;
  contract.tile = 64;
  contract.exp_error = 0x1p-9f;
  contract.exp_underflow = 0x1p-126f;
  contract.log_error = 0x1p-21f;
  contract.max_headroom = 8;
  return kernel;
}

TEST(KernelDeclaration, HasNoFlawWhenHonest) {
  EXPECT_EQ(flaws_of_declaration(honest_kernel()), "");
  mlacheck_kernel fp8 = honest_kernel();
  fp8.contract.qk = {32, MLACHECK_SUM_SEQUENTIAL, 1, 13, 0};
  EXPECT_EQ(flaws_of_declaration(fp8), "");
}

// A library built before the field was appended: what stands there is not the kernel's.
TEST(KernelDeclaration, ReadsAnAppendedFieldWithinTheStructAlone) {
  mlacheck_kernel kernel = honest_kernel();
  kernel.op = MLACHECK_INDEX_SCORES;
  EXPECT_EQ(relu_drops_nan(kernel), 0);
  kernel.relu_drops_nan = 1;
  EXPECT_EQ(relu_drops_nan(kernel), 1);
  kernel.relu_drops_nan = 7;
  EXPECT_EQ(flaws_of_declaration(kernel), "relu_drops_nan is 7, allowed are 0 to 1");
  kernel.struct_size = kFirstKernelSize;
  EXPECT_EQ(relu_drops_nan(kernel), 0);
  EXPECT_EQ(flaws_of_declaration(kernel), "");
}

TEST(KernelDeclaration, NamesWhatIsTooLoose) {
  const auto flaw_of = [](auto change) {
    mlacheck_kernel kernel = honest_kernel();
    change(kernel.contract);
    return flaws_of_declaration(kernel);
  };
  EXPECT_THAT(flaw_of([](mlacheck_contract& c) {
                c.qk.block = 1024;
                c.qk.alignment_bits = 8;
              }),
              HasSubstr("contract.qk.block 2^-alignment_bits is 4"));
  EXPECT_THAT(flaw_of([](mlacheck_contract& c) { c.weight_scale = 0x1p-30f; }),
              HasSubstr("contract.weight_scale"));
  EXPECT_THAT(flaw_of([](mlacheck_contract& c) {
                c.exp_error = 0x1p-8f;
                c.tile = 1;
              }),
              HasSubstr("contract.exp_error / tile"));
  EXPECT_THAT(flaw_of([](mlacheck_contract& c) { c.max_headroom = 64; }),
              HasSubstr("contract.max_headroom is 64"));
  EXPECT_THAT(flaw_of([](mlacheck_contract& c) { c.exp_error = std::nanf(""); }),
              HasSubstr("contract.exp_error is nan"));
}

// A designer of one kernel fills in what it has; the rest stays 0.
TEST(KernelDeclaration, ReadsTheFieldsOfItsOwnOperatorAlone) {
  mlacheck_kernel attention = honest_kernel();
  attention.contract.index_dot = attention.contract.index_heads = {};
  attention.contract.score_dtype = 0;
  EXPECT_EQ(flaws_of_declaration(attention), "");

  mlacheck_kernel empty = {};
  empty.struct_size = sizeof(empty);
  empty.memory = MLACHECK_HOST;
  empty.conventions.struct_size = sizeof(empty.conventions);
  empty.contract.struct_size = sizeof(empty.contract);
  for (const mlacheck_operator op : {MLACHECK_TOP_K, MLACHECK_MAP_SLOTS}) {
    empty.op = op;
    EXPECT_EQ(flaws_of_declaration(empty), "");
  }
  for (const mlacheck_operator op :
       {MLACHECK_SPARSE_ATTENTION, MLACHECK_INDEX_SCORES, MLACHECK_INDEX_SELECT}) {
    empty.op = op;
    EXPECT_NE(flaws_of_declaration(empty), "");
  }
}

TEST(KernelDeclaration, ReadsAlignmentBitsOfTruncatingSumsAlone) {
  mlacheck_kernel kernel = honest_kernel();
  kernel.contract.qk = {1, MLACHECK_SUM_SEQUENTIAL, 0, 0, 0};
  EXPECT_EQ(flaws_of_declaration(kernel), "");
  kernel.contract.qk.toward_zero = 1;
  EXPECT_THAT(flaws_of_declaration(kernel),
              HasSubstr("contract.qk.alignment_bits is 0, allowed are 8 to 60"));
}

TEST(KernelDeclaration, NamesEveryFlaw) {
  mlacheck_kernel kernel = honest_kernel();
  kernel.conventions.lse_base = 0;
  kernel.contract.max_splits = 0;
  EXPECT_EQ(flaws_of_declaration(kernel),
            "conventions.lse_base is 0, allowed are 1 to 2; "
            "contract.max_splits is 0, allowed are 1 to 1048576");
}

}  // namespace
}  // namespace mlacheck
