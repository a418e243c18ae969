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
  EXPECT_EQ(flaw_of_declaration(honest_kernel()), "");
  mlacheck_kernel fp8 = honest_kernel();
  fp8.contract.qk = {32, MLACHECK_SUM_SEQUENTIAL, 1, 13, 0};
  EXPECT_EQ(flaw_of_declaration(fp8), "");
}

// A library built before the field was appended: what stands there is not the kernel's.
TEST(KernelDeclaration, ReadsAnAppendedFieldWithinTheStructAlone) {
  mlacheck_kernel kernel = honest_kernel();
  EXPECT_EQ(relu_drops_nan(kernel), 0);
  kernel.relu_drops_nan = 1;
  EXPECT_EQ(relu_drops_nan(kernel), 1);
  kernel.relu_drops_nan = 7;
  EXPECT_EQ(flaw_of_declaration(kernel), "relu_drops_nan is 7, allowed are 0 to 1");
  kernel.struct_size = kFirstKernelSize;
  EXPECT_EQ(relu_drops_nan(kernel), 0);
  EXPECT_EQ(flaw_of_declaration(kernel), "");
}

TEST(KernelDeclaration, NamesWhatIsTooLoose) {
  const auto flaw_of = [](auto change) {
    mlacheck_kernel kernel = honest_kernel();
    change(kernel.contract);
    return flaw_of_declaration(kernel);
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

}  // namespace
}  // namespace mlacheck
