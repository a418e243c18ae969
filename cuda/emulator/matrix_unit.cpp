#include "cuda/emulator/matrix_unit.h"

#include <fmt/format.h>

#include <cstring>

#include "cuda/emulator/group.h"
#include "reference/arithmetic/tensor_core_kernel.h"

namespace mlacheck::emulator {
namespace {

constexpr Mma kF16{DType::f16, Lowering::hmma16_f25};
constexpr Mma kBf16{DType::bf16, Lowering::hmma16_f25};

template <class Register>
void prepare(Register& x, MatrixOperation element) {
  if (x.prepared_for == element) return;
  constexpr int kPairs = sizeof x.pairs / sizeof(std::uint32_t);
  const auto& format = element == MatrixOperation::multiply_f16 ? detail::kF16 : detail::kBf16;
  std::uint32_t exponents[kPairs];
  detail::tensor_core_kernel().unpack(format, x.pairs[0], kPairs, x.block.value[0][0],
                                      x.block.value[1][0], exponents);
  std::memcpy(x.block.exponent, exponents, sizeof exponents);
  std::memcpy(x.block.bits, x.pairs, sizeof x.pairs);
  x.prepared_for = element;
}

// One 8 x 8 matrix to 8 lines of 4 pairs, pairs[p * pitch + line]: a line is a row or, transposed,
// a column.
void spread(const std::uint32_t (*rows)[4], bool transposed, std::uint32_t* pairs, int pitch) {
  if (!transposed) {
    for (int p = 0; p < 4; ++p)
      for (int line = 0; line < 8; ++line) pairs[p * pitch + line] = rows[line][p];
    return;
  }
  std::uint16_t x[8][8];
  std::memcpy(x, rows, sizeof x);
  for (int p = 0; p < 4; ++p)
    for (int line = 0; line < 8; ++line)
      pairs[p * pitch + line] = x[2 * p][line] | std::uint32_t{x[2 * p + 1][line]} << 16;
}

}  // namespace

void MatrixUnit::reset() {
  forget_operations();
  std::memset(a_defined_, 0, sizeof a_defined_);
  std::memset(b_defined_, 0, sizeof b_defined_);
}

void MatrixUnit::forget_operations() {
  count_ = words_ = 0;
  keys_[0] = 0;
}

std::uint32_t* MatrixUnit::record_first(Lane& lane, std::uint64_t key, std::uint32_t words,
                                        const Site& site) {
  const bool full =
      lane.recorded == kMostOperations || (lane.recorded == count_ && words_ + words > kMostWords);
  if (full) settle(lane);
  const std::uint32_t position = lane.recorded;
  if (position == count_) {
    keys_[position] = key;
    keys_[position + 1] = 0;
    first_word_[position] = words_;
    sites_[position] = site;
    words_ += words;
    ++count_;
  } else if (keys_[position] != key) {
    report(lane, ReportKind::divergence, site,
           "other lanes of the warp do another matrix operation here, at " +
               site_name(sites_[position]));
    abandon(lane);
  }
  ++lane.recorded;
  return &word_[first_word_[position]][lane.index];
}

void MatrixUnit::set(RegisterA& a, const std::uint32_t (*words)[kWarpLanes]) {
  for (std::uint32_t i = 0; i < 4; ++i)
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane)
      a.pairs[i / 2 * 4 + lane % 4][i % 2 * 8 + lane / 4] = words[i][lane];
  a.prepared_for = MatrixOperation::none;
}

void MatrixUnit::set(RegisterB& b, const std::uint32_t (*words)[kWarpLanes]) {
  for (std::uint32_t i = 0; i < 2; ++i)
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane)
      b.pairs[4 * i + lane % 4][lane / 4] = words[i][lane];
  b.prepared_for = MatrixOperation::none;
}

void MatrixUnit::gather(Lane& lane, const std::uint32_t* addresses, std::uint32_t matrices,
                        const Site& site, std::uint32_t (&rows)[kWarpLanes][4]) {
  Warp& warp = *lane.warp;
  SharedMemory& shared = warp.block->shared;
  for (std::uint32_t i = 0; i < matrices * 8; ++i)
    if (shared.read_row(warp.lanes[i], addresses[i], site))
      std::memcpy(rows[i], shared.data() + addresses[i], sizeof rows[i]);
    else
      std::memset(rows[i], 0xff, sizeof rows[i]);
}

void MatrixUnit::multiply(Lane& lane, MatrixOperation operation, std::uint32_t c, std::uint32_t a,
                          std::uint32_t b, const Site& site) {
  if (!accumulators_[c].defined || !a_defined_[a] || !b_defined_[b]) [[unlikely]] {
    report(lane, ReportKind::uninitialised_read, site,
           accumulators_[c].defined ? "multiplies a fragment without a value"
                                    : "adds to an accumulator without a value");
    const auto poison = [](auto& fragment, bool& defined) {
      if (defined) return;
      std::memset(fragment.pairs, 0xff, sizeof fragment.pairs);
      fragment.prepared_for = MatrixOperation::none;
      defined = true;
    };
    accumulators_[c].defined = true;
    poison(a_[a], a_defined_[a]);
    poison(b_[b], b_defined_[b]);
  }
  prepare(a_[a], operation);
  prepare(b_[b], operation);
  mma_chain(operation == MatrixOperation::multiply_f16 ? kF16 : kBf16, &a_[a].block, &b_[b].block,
            1, accumulators_[c].value);
}

void MatrixUnit::execute(Lane& lane) {
  for (Lane& other : lane.warp->lanes) {
    if (other.recorded != count_) {
      report(other, ReportKind::divergence, sites_[other.recorded],
             fmt::format("the lane has done {} matrix operations where others have done {}",
                         other.recorded, count_));
      abandon(lane);
    }
  }
  std::uint32_t rows[kWarpLanes][4];
  for (std::uint32_t i = 0; i < count_; ++i) {
    const auto operation = static_cast<MatrixOperation>(keys_[i] & 0xffu);
    const std::uint32_t b = keys_[i] >> 8 & 0xffu;
    const std::uint32_t a = keys_[i] >> 16 & 0xffu;
    const std::uint32_t c = keys_[i] >> 24 & 0xffu;
    const auto* words = &word_[first_word_[i]];
    switch (operation) {
      case MatrixOperation::none:
        break;
      case MatrixOperation::set_a:
        set(a_[a], words);
        a_defined_[a] = true;
        break;
      case MatrixOperation::set_b:
        set(b_[b], words);
        b_defined_[b] = true;
        break;
      case MatrixOperation::load_a:
        gather(lane, *words, 4, sites_[i], rows);
        for (std::uint32_t matrix = 0; matrix < 4; ++matrix)
          spread(rows + 8 * matrix, false, &a_[a].pairs[matrix / 2 * 4][matrix % 2 * 8], kMmaRows);
        a_[a].prepared_for = MatrixOperation::none;
        a_defined_[a] = true;
        break;
      case MatrixOperation::load_b:
      case MatrixOperation::load_b_transposed:
      case MatrixOperation::load_b_pair:
      case MatrixOperation::load_b_pair_transposed: {
        const bool pair = operation == MatrixOperation::load_b_pair ||
                          operation == MatrixOperation::load_b_pair_transposed;
        const bool transposed = operation == MatrixOperation::load_b_transposed ||
                                operation == MatrixOperation::load_b_pair_transposed;
        gather(lane, *words, pair ? 4 : 2, sites_[i], rows);
        for (std::uint32_t matrix = 0; matrix < (pair ? 4u : 2u); ++matrix) {
          const std::uint32_t index = matrix < 2 ? b : a;
          RegisterB& to = b_[index];
          b_defined_[index] = true;
          spread(rows + 8 * matrix, transposed, to.pairs[matrix % 2 * 4], kMmaColumns);
          to.prepared_for = MatrixOperation::none;
        }
        break;
      }
      case MatrixOperation::undefine:
        std::memset(accumulators_[c].value, 0xff, sizeof accumulators_[c].value);
        accumulators_[c].defined = false;
        break;
      case MatrixOperation::clear:
        std::memset(accumulators_[c].value, 0, sizeof accumulators_[c].value);
        accumulators_[c].defined = true;
        break;
      case MatrixOperation::multiply_f16:
      case MatrixOperation::multiply_bf16:
        multiply(lane, operation, c, a, b, sites_[i]);
        break;
    }
  }
  for (Lane& other : lane.warp->lanes) other.recorded = 0;
  forget_operations();
}

}  // namespace mlacheck::emulator
