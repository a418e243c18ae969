/* The kernel ABI from strict C99: the header compiles, a library can be written against it, and structs have the
 * sizes and places that they have for a C++ caller on a 64-bit machine. */
#include "mlacheck_kernel.h"

#include <stdio.h>
#include <string.h>

static int supports(const mlacheck_problem* problem, char* why, size_t why_size) {
  if (problem->op == MLACHECK_MAP_SLOTS && problem->u.map_slots.block_size == 64) return 1;
  strncpy(why, "expected map_slots with blocks of 64", why_size);
  return 0;
}

static const mlacheck_kernel kKernel = {
    sizeof(mlacheck_kernel),
    MLACHECK_MAP_SLOTS,
    "c99",
    "written in C99",
    MLACHECK_HOST,
    0,
    {sizeof(mlacheck_conventions), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {.struct_size = sizeof(mlacheck_contract), .exp_error = 0x1p-22f},
    supports,
    NULL,
    NULL,
    0,
    0};
static const mlacheck_kernel* const kList[] = {&kKernel};

MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(uint32_t abi_version);
const mlacheck_library* mlacheck_kernel_library(uint32_t abi_version) {
  static const mlacheck_library library = {
      sizeof(mlacheck_library), MLACHECK_ABI_VERSION, "c99", "1", kList, 1, 0};
  return abi_version == MLACHECK_ABI_VERSION ? &library : NULL;
}

static int failures = 0;

static void expect(const char* what, size_t got, size_t expected) {
  if (got == expected) return;
  printf("FAIL %s: expected %lu, got %lu\n", what, (unsigned long)expected, (unsigned long)got);
  ++failures;
}

#define EXPECT_SIZE(type, bytes) expect(#type, sizeof(type), bytes)
#define EXPECT_PLACE(type, member, bytes) expect(#type "." #member, offsetof(type, member), bytes)

int main(void) {
  mlacheck_kernel_library_fn entry = mlacheck_kernel_library;
  mlacheck_problem problem = {sizeof(mlacheck_problem), MLACHECK_MAP_SLOTS, {{0}}, 0, 0};
  char why[64] = "";

  EXPECT_SIZE(mlacheck_cache, 40);
  EXPECT_SIZE(mlacheck_sparse_attention_problem, 136);
  EXPECT_SIZE(mlacheck_index_scores_problem, 120);
  EXPECT_SIZE(mlacheck_top_k_problem, 40);
  EXPECT_SIZE(mlacheck_index_select_problem, 136);
  EXPECT_SIZE(mlacheck_map_slots_problem, 24);
  EXPECT_SIZE(mlacheck_problem, 336);
  EXPECT_PLACE(mlacheck_problem, u, 8);
  EXPECT_PLACE(mlacheck_problem, unmasked_scores, 328); /* the first version ended here */
  EXPECT_SIZE(mlacheck_tensors, 152);
  EXPECT_PLACE(mlacheck_tensors, out, 104);
  EXPECT_SIZE(mlacheck_conventions, 44);
  EXPECT_SIZE(mlacheck_accumulation, 20);
  EXPECT_SIZE(mlacheck_contract, 164);
  EXPECT_PLACE(mlacheck_contract, weight_dtype, 108);
  EXPECT_SIZE(mlacheck_kernel, 272);
  EXPECT_PLACE(mlacheck_kernel, supports, 240);
  EXPECT_PLACE(mlacheck_kernel, relu_drops_nan, 264); /* the first version ended here */
  EXPECT_SIZE(mlacheck_library, 40);

  expect("has", MLACHECK_PROBLEM_HAS(&problem, unmasked_scores), 1);
  problem.struct_size = 328;
  expect("has, of the first version", MLACHECK_PROBLEM_HAS(&problem, unmasked_scores), 0);
  problem.u.map_slots.block_size = 64;
  expect("supports",
         (size_t)entry(MLACHECK_ABI_VERSION)->kernels[0]->supports(&problem, why, sizeof why), 1);
  problem.u.map_slots.block_size = 32;
  expect("supports", (size_t)kKernel.supports(&problem, why, sizeof why), 0);
  expect("another ABI", entry(MLACHECK_ABI_VERSION + 1) == NULL, 1);
  return failures == 0 ? 0 : 1;
}
