#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/memory.h"

namespace mlacheck::device {

// Tensor-core tiles, spread over a warp. All functions here are collectives (device/warp.h).
// Lane = 4 g + t. Elements are 16 bits wide, two in a word, the lower column (k) in the low half:
//
//   FragmentA   16 x 16: word 0 (row g, k 2t), 1 (g + 8, 2t), 2 (g, 2t + 8), 3 (g + 8, 2t + 8)
//   FragmentB   16 x 8:  word 0 (k 2t, column g), 1 (k 2t + 8, column g)
//   Accumulator 16 x 8:  0 (row g, column 2t), 1 (g, 2t + 1), 2 (g + 8, 2t), 3 (g + 8, 2t + 1)
//
// A lane sets its words of a FragmentA (Words4) or a FragmentB (Words2), and reads and writes its
// part of an Accumulator; they are never copied.
class FragmentA;
class FragmentB;
class Accumulator;

enum class Element { f16, bf16 };

// ldmatrix: 8 x 8 matrices of 16-byte rows. Lane i gives the address of row i % 8 of matrix i / 8;
// addresses are 16-byte aligned; with x2 those of lanes 16 ... 31 are not used. A B fragment's
// matrices are its k 0 ... 7 and 8 ... 15: rows of the matrix are columns of B; transposed, rows of
// the matrix are k.
MLACHECK_DEVICE_FN void load_matrix(FragmentA& a, SharedPointer<std::byte> row MLACHECK_SITE);
MLACHECK_DEVICE_FN void load_matrix(FragmentB& b, SharedPointer<std::byte> row MLACHECK_SITE);
MLACHECK_DEVICE_FN void load_matrix_transposed(FragmentB& b,
                                               SharedPointer<std::byte> row MLACHECK_SITE);
// Two fragments from four matrices: the first's two, then the second's.
MLACHECK_DEVICE_FN void load_matrix(FragmentB& first, FragmentB& second,
                                    SharedPointer<std::byte> row MLACHECK_SITE);
MLACHECK_DEVICE_FN void load_matrix_transposed(FragmentB& first, FragmentB& second,
                                               SharedPointer<std::byte> row MLACHECK_SITE);

// movmatrix: an 8 x 8 matrix, of which lane 4 g + t has row g, columns 2t and 2t + 1, transposed.
// So an accumulator's rows, packed, become k of a B fragment.
MLACHECK_DEVICE_FN std::uint32_t transpose_matrix(std::uint32_t word MLACHECK_SITE);

// c += a b in fp32, one fused step of 16 products (reference/arithmetic/tensor_core.h).
template <Element E>
MLACHECK_DEVICE_FN void mma_m16n8k16(Accumulator& c, const FragmentA& a,
                                     const FragmentB& b MLACHECK_SITE);

// Two fp32 values rounded to nearest even to two elements of a word; `low` in the low half.
template <Element E>
MLACHECK_DEVICE_FN std::uint32_t pack(float low, float high);

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/matrix.h"
#else
#include "cuda/device/emulated/matrix.h"
#endif
