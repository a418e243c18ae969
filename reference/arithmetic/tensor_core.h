#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "reference/formats/dtype.h"

namespace mlacheck {

// The arithmetic of NVIDIA's tensor cores, bit for bit: D = A B + C with fp32 accumulation, as
// mma.sync computes it.
//
// One fused step takes L products and C:
//
//   emax = largest exponent among the nonzero products (ea + eb, not normalised) and a nonzero C
//   S    = sum of trunc(term * 2^(F - emax)) over the products and C, exact
//   D    = S * 2^(emax - F), rounded toward zero to 24 bits; 2^128 and above become Inf
//
// A longer k is a chain of steps through the fp32 result, ascending k. Subnormals count in full. A
// sum of zero is +0, whatever the signs. Any NaN, Inf * 0 or Inf - Inf gives 0x7fffffff.
//
// None of this is documented by NVIDIA. f16, bf16 and the sm_90 e4m3 form were checked against an
// H200; the others come from published probes (microsoft/MMA-Sim; Khattak and Mikaitis,
// arXiv:2512.07004).
//
// The same bits under every InstructionSet.

// What an mma instruction becomes on a chip.
enum class Lowering {
  hmma16_f25,         // f16, bf16 m16n8k16; L = 16, F = 25: sm_90, sm_100, sm_120
  hmma8_f24,          // f16, bf16 m16n8k16; k 0..7, then 8..15; L = 8, F = 24: sm_80, sm_89
  qmma32_f25,         // e4m3 m16n8k32; L = 32, F = 25: sm_120
  fp8_emulated_sm90,  // e4m3 m16n8k32 as two hmma16_f25 from C = 0, k mod 4 in {0, 1} then {2, 3},
                      // then C by an fp32 addition (nearest): sm_90, sm_100, sm_103
  qmma16_f13,         // e4m3 m16n8k32; k 0..15, then 16..31; L = 16, F = 13, results cut to 13
                      // fraction bits: sm_89
};

inline constexpr Lowering kLowerings[] = {Lowering::hmma16_f25, Lowering::hmma8_f24,
                                          Lowering::qmma32_f25, Lowering::fp8_emulated_sm90,
                                          Lowering::qmma16_f13};

std::string_view name_of(Lowering lowering);

// An m16n8k(K) instruction: the element type of A and B, and the lowering.
struct Mma {
  DType element;
  Lowering lowering;
  friend constexpr bool operator==(Mma, Mma) = default;
};

inline constexpr int kMmaRows = 16;
inline constexpr int kMmaColumns = 8;

// K of the instruction: 16 for f16 and bf16, 32 for e4m3. Throws std::invalid_argument when the
// lowering does not take the element type.
int mma_k(Mma mma);

// One instruction on operand tiles of element bits; d may be c. Throws std::invalid_argument when K
// differs from mma_k(mma).
void mma_m16n8k16(Mma mma, const std::uint16_t (&a)[16][16], const std::uint16_t (&b)[16][8],
                  const float (&c)[16][8], float (&d)[16][8]);
void mma_m16n8k32(Mma mma, const std::uint8_t (&a)[16][32], const std::uint8_t (&b)[32][8],
                  const float (&c)[16][8], float (&d)[16][8]);

// Operands prepared once and used many times: 16 values of k for the 16 rows of an A tile, or the 8
// columns of a B tile. Index [j][p][i] is k = 2p + j of row or column i, or the k that the lowering
// puts there.
struct alignas(64) MmaBlockA {
  float value[2][8][kMmaRows];
  std::int16_t exponent[8][kMmaRows][2];  // of the unnormalised product; far below or above for
                                          // zero, Inf and NaN
  std::uint16_t bits[8][kMmaRows][2];
};
struct alignas(64) MmaBlockB {
  float value[2][8][kMmaColumns];
  std::int16_t exponent[8][kMmaColumns][2];
  std::uint16_t bits[8][kMmaColumns][2];
};

// A chain of `instructions` mma on one 16 x 8 accumulator, in place; blocks in order of k.
void mma_chain(Mma mma, const MmaBlockA* a, const MmaBlockB* b, std::int64_t instructions,
               float (&c)[16][8]);

// A whole A [rows][k] or B [k][columns], prepared: element bits, row-major, `stride` elements a
// row. Any number of rows and columns (padded with zeros inside); k a multiple of mma_k(mma), else
// std::invalid_argument.
class MmaA {
 public:
  MmaA(Mma mma, const std::uint16_t* a, std::int64_t rows, std::int64_t k, std::int64_t stride);
  MmaA(Mma mma, const std::uint8_t* a, std::int64_t rows, std::int64_t k, std::int64_t stride);

  Mma mma() const { return mma_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t k() const { return k_; }
  // The k / 16 blocks of rows 16 * panel ... 16 * panel + 15.
  const MmaBlockA* panel(std::int64_t panel) const { return blocks_.data() + panel * (k_ / 16); }

 private:
  Mma mma_;
  std::int64_t rows_;
  std::int64_t k_;
  std::vector<MmaBlockA> blocks_;
};

class MmaB {
 public:
  MmaB(Mma mma, const std::uint16_t* b, std::int64_t k, std::int64_t columns, std::int64_t stride);
  MmaB(Mma mma, const std::uint8_t* b, std::int64_t k, std::int64_t columns, std::int64_t stride);

  Mma mma() const { return mma_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t k() const { return k_; }
  // The k / 16 blocks of columns 8 * panel ... 8 * panel + 7.
  const MmaBlockB* panel(std::int64_t panel) const { return blocks_.data() + panel * (k_ / 16); }

 private:
  Mma mma_;
  std::int64_t columns_;
  std::int64_t k_;
  std::vector<MmaBlockB> blocks_;
};

// C[rows][columns] = A B + C, in place, each output a chain of instructions in ascending k;
// `stride` elements a row of C. Throws std::invalid_argument when a and b differ in k or
// instruction.
void mma_accumulate(const MmaA& a, const MmaB& b, float* c, std::int64_t stride);

}  // namespace mlacheck
