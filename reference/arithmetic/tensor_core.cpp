#include "reference/arithmetic/tensor_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "reference/arithmetic/instruction_set.h"
#include "reference/arithmetic/tensor_core_kernel.h"
#include "reference/arithmetic/tensor_core_slow.h"

namespace mlacheck {
namespace detail {

const TensorCoreKernel& tensor_core_kernel() {
#if defined(__x86_64__)
  const InstructionSet set = instruction_set();
  if (set == InstructionSet::avx512) return kAvx512Kernel;
  if (set == InstructionSet::avx2) return kAvx2Kernel;
#endif
  return kPortableKernel;
}

namespace {

// Element bits as the adder sees them.
inline std::uint32_t adder_bits(const MmaRules&, std::uint16_t bits) { return bits; }
inline std::uint32_t adder_bits(const MmaRules& rules, std::uint8_t bits) {
  return rules.format.fraction_bits == kF16.fraction_bits ? f16_bits_of_e4m3(bits) : bits;
}

template <class Bits>
MmaRules rules_for(Mma mma) {
  const MmaRules rules = rules_of(mma);
  if (size_of(mma.element) != sizeof(Bits))
    throw std::invalid_argument(fmt::format("mma: operand bits of {} have {} bytes, got {}",
                                            name_of(mma.element), size_of(mma.element),
                                            sizeof(Bits)));
  return rules;
}

// One instruction's tile, x[i * line_stride + k * k_stride] for line (row of A, column of B) i,
// into k / 16 blocks.
template <class Bits, class Block>
void prepare(const MmaRules& rules, const Bits* x, std::int64_t line_stride, std::int64_t k_stride,
             Block* blocks) {
  constexpr int kLines = sizeof(Block::value) / (16 * sizeof(float));
  for (int first = 0; first < rules.k; first += 16, ++blocks) {
    std::uint32_t pairs[8][kLines];
    std::uint32_t exponents[8][kLines];
    for (int p = 0; p < 8; ++p) {
      const Bits* even = x + k_at(rules.interleaved, rules.k, first + 2 * p) * k_stride;
      for (int i = 0; i < kLines; ++i, even += line_stride)
        pairs[p][i] = adder_bits(rules, even[0]) | (adder_bits(rules, even[k_stride]) << 16);
    }
    tensor_core_kernel().unpack(rules.format, pairs[0], 8 * kLines, blocks->value[0][0],
                                blocks->value[1][0], exponents[0]);
    std::memcpy(blocks->exponent, exponents, sizeof exponents);
    std::memcpy(blocks->bits, pairs, sizeof pairs);
  }
}

template <class Bits, int kK>
void mma_tile(Mma mma, const Bits (&a)[16][kK], const Bits (&b)[kK][8], const float (&c)[16][8],
              float (&d)[16][8]) {
  require_k(mma, kK);
  const MmaRules rules = rules_of(mma);
  MmaBlockA blocks_a[kK / 16];
  MmaBlockB blocks_b[kK / 16];
  prepare(rules, a[0], kK, 1, blocks_a);
  prepare(rules, b[0], 1, kMmaColumns, blocks_b);
  if (&c != &d) std::memcpy(d, c, sizeof d);
  tensor_core_kernel().chain(rules, blocks_a, blocks_b, 1, d);
}

// A whole operand: `lines` rows of A or columns of B, in panels of the tile's width.
template <class Bits, class Block>
std::vector<Block> prepare_all(Mma mma, const Bits* x, std::int64_t lines, std::int64_t k,
                               std::int64_t line_stride, std::int64_t k_stride) {
  constexpr std::int64_t kLines = sizeof(Block::value) / (16 * sizeof(float));
  const MmaRules rules = rules_for<Bits>(mma);
  if (lines < 0 || k < 0 || k % rules.k != 0)
    throw std::invalid_argument(fmt::format(
        "mma: expected a k that is a multiple of {}, got {} lines of {}", rules.k, lines, k));
  std::vector<Block> blocks(static_cast<std::size_t>((lines + kLines - 1) / kLines * (k / 16)));
  Block* out = blocks.data();
  for (std::int64_t line = 0; line < lines; line += kLines)
    for (std::int64_t first = 0; first < k; first += rules.k, out += rules.k / 16) {
      const Bits* tile = x + line * line_stride + first * k_stride;
      if (line + kLines <= lines) {
        prepare(rules, tile, line_stride, k_stride, out);
        continue;
      }
      Bits padded[kLines * 32] = {};
      for (std::int64_t i = 0; line + i < lines; ++i)
        for (int j = 0; j < rules.k; ++j) padded[i * 32 + j] = tile[i * line_stride + j * k_stride];
      prepare(rules, padded, 32, 1, out);
    }
  return blocks;
}

}  // namespace

float fused_step_of_blocks(const MmaRules& rules, const MmaBlockA* a, const MmaBlockB* b, int pair,
                           int m, int n, float c) {
  if (std::isnan(c)) return std::bit_cast<float>(0x7fffffffu);  // stays so, all along a chain
  std::uint16_t row[32];
  std::uint16_t column[32];
  for (int i = 0; i < rules.products; ++i) {
    const int p = pair + i / 2;
    row[i] = a[p / 8].bits[p % 8][m][i % 2];
    column[i] = b[p / 8].bits[p % 8][n][i % 2];
  }
  return fused_step({rules}, row, column, rules.products, c);
}

}  // namespace detail

void mma_m16n8k16(Mma mma, const std::uint16_t (&a)[16][16], const std::uint16_t (&b)[16][8],
                  const float (&c)[16][8], float (&d)[16][8]) {
  detail::mma_tile(mma, a, b, c, d);
}

void mma_m16n8k32(Mma mma, const std::uint8_t (&a)[16][32], const std::uint8_t (&b)[32][8],
                  const float (&c)[16][8], float (&d)[16][8]) {
  detail::mma_tile(mma, a, b, c, d);
}

void mma_chain(Mma mma, const MmaBlockA* a, const MmaBlockB* b, std::int64_t instructions,
               float (&c)[16][8]) {
  detail::tensor_core_kernel().chain(detail::rules_of(mma), a, b, instructions, c);
}

MmaA::MmaA(Mma mma, const std::uint16_t* a, std::int64_t rows, std::int64_t k, std::int64_t stride)
    : mma_(mma),
      rows_(rows),
      k_(k),
      blocks_(detail::prepare_all<std::uint16_t, MmaBlockA>(mma, a, rows, k, stride, 1)) {}

MmaA::MmaA(Mma mma, const std::uint8_t* a, std::int64_t rows, std::int64_t k, std::int64_t stride)
    : mma_(mma),
      rows_(rows),
      k_(k),
      blocks_(detail::prepare_all<std::uint8_t, MmaBlockA>(mma, a, rows, k, stride, 1)) {}

MmaB::MmaB(Mma mma, const std::uint16_t* b, std::int64_t k, std::int64_t columns,
           std::int64_t stride)
    : mma_(mma),
      columns_(columns),
      k_(k),
      blocks_(detail::prepare_all<std::uint16_t, MmaBlockB>(mma, b, columns, k, 1, stride)) {}

MmaB::MmaB(Mma mma, const std::uint8_t* b, std::int64_t k, std::int64_t columns,
           std::int64_t stride)
    : mma_(mma),
      columns_(columns),
      k_(k),
      blocks_(detail::prepare_all<std::uint8_t, MmaBlockB>(mma, b, columns, k, 1, stride)) {}

void mma_accumulate(const MmaA& a, const MmaB& b, float* c, std::int64_t stride) {
  if (a.mma() != b.mma() || a.k() != b.k())
    throw std::invalid_argument(
        fmt::format("mma_accumulate: A is {} by {} with k = {}, B is {} by {} with k = {}",
                    name_of(a.mma().element), name_of(a.mma().lowering), a.k(),
                    name_of(b.mma().element), name_of(b.mma().lowering), b.k()));
  const std::int64_t instructions = a.k() / mma_k(a.mma());
  for (std::int64_t column = 0; column < b.columns(); column += kMmaColumns)
    for (std::int64_t row = 0; row < a.rows(); row += kMmaRows) {
      const std::int64_t rows = std::min<std::int64_t>(kMmaRows, a.rows() - row);
      const std::int64_t columns = std::min<std::int64_t>(kMmaColumns, b.columns() - column);
      float* corner = c + row * stride + column;
      float tile[kMmaRows][kMmaColumns] = {};
      for (std::int64_t m = 0; m < rows; ++m) std::copy_n(corner + m * stride, columns, tile[m]);
      mma_chain(a.mma(), a.panel(row / kMmaRows), b.panel(column / kMmaColumns), instructions,
                tile);
      for (std::int64_t m = 0; m < rows; ++m) std::copy_n(tile[m], columns, corner + m * stride);
    }
}

}  // namespace mlacheck
