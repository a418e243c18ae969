#pragma once

#include "cuda/emulator/primitives.h"
#include "reference/formats/bf16.h"
#include "reference/formats/f16.h"

namespace mlacheck::device {

namespace detail {

// The running lane's place for what it gives to a matrix operation of its warp.
[[gnu::always_inline]] inline std::uint32_t* record(emulator::MatrixOperation operation,
                                                    std::uint32_t c, std::uint32_t a,
                                                    std::uint32_t b, std::uint32_t words,
                                                    const emulator::Site& site) {
  emulator::Lane& lane = *emulator::current_lane;
  return lane.warp->matrices.record(lane, operation, c, a, b, words, site);
}

}  // namespace detail

// Fragments and accumulators name registers of the warp: every lane creates them in the same order.
class FragmentA {
 public:
  FragmentA() : index_(emulator::current_lane->a_alive++) {
    emulator::require_registers(index_ + 1, emulator::MatrixUnit::kMostA, "A fragments");
  }
  ~FragmentA() { --emulator::current_lane->a_alive; }
  FragmentA(const FragmentA&) = delete;
  FragmentA& operator=(const FragmentA&) = delete;

  void set(const Words4& words MLACHECK_SITE) {
    std::uint32_t* to = detail::record(emulator::MatrixOperation::set_a, 0, index_, 0, 4, site);
    for (std::uint32_t i = 0; i < 4; ++i) to[i * kWarpSize] = words.word[i];
  }
  std::uint32_t index() const { return index_; }

 private:
  std::uint32_t index_;
};

class FragmentB {
 public:
  FragmentB() : index_(emulator::current_lane->b_alive++) {
    emulator::require_registers(index_ + 1, emulator::MatrixUnit::kMostB, "B fragments");
  }
  ~FragmentB() { --emulator::current_lane->b_alive; }
  FragmentB(const FragmentB&) = delete;
  FragmentB& operator=(const FragmentB&) = delete;

  void set(const Words2& words MLACHECK_SITE) {
    std::uint32_t* to = detail::record(emulator::MatrixOperation::set_b, 0, 0, index_, 2, site);
    for (std::uint32_t i = 0; i < 2; ++i) to[i * kWarpSize] = words.word[i];
  }
  std::uint32_t index() const { return index_; }

 private:
  std::uint32_t index_;
};

class Accumulator {
 public:
  Accumulator() {
    emulator::Lane& lane = *emulator::current_lane;
    index_ = lane.c_alive++;
    emulator::require_registers(index_ + 1, emulator::MatrixUnit::kMostC, "accumulators");
    value_ = lane.warp->matrices.accumulator(index_, lane.index);
    detail::record(emulator::MatrixOperation::undefine, index_, 0, 0, 0, {});
  }
  ~Accumulator() { --emulator::current_lane->c_alive; }
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;

  void clear(MLACHECK_SITE_ONLY) {
    detail::record(emulator::MatrixOperation::clear, index_, 0, 0, 0, site);
  }
  float& operator[](int i) {
    emulator::Lane& lane = *emulator::current_lane;
    emulator::settle(lane);
    lane.warp->matrices.define(index_);
    return value_[(i & 1) + (i >> 1) * 64];
  }
  std::uint32_t index() const { return index_; }

 private:
  std::uint32_t index_;
  float* value_;
};

inline void load_matrix(FragmentA& a, SharedPointer<std::byte> row, emulator::Site site) {
  *detail::record(emulator::MatrixOperation::load_a, 0, a.index(), 0, 1, site) = row.address;
}
inline void load_matrix(FragmentB& b, SharedPointer<std::byte> row, emulator::Site site) {
  *detail::record(emulator::MatrixOperation::load_b, 0, 0, b.index(), 1, site) = row.address;
}
inline void load_matrix_transposed(FragmentB& b, SharedPointer<std::byte> row,
                                   emulator::Site site) {
  *detail::record(emulator::MatrixOperation::load_b_transposed, 0, 0, b.index(), 1, site) =
      row.address;
}
inline void load_matrix(FragmentB& first, FragmentB& second, SharedPointer<std::byte> row,
                        emulator::Site site) {
  *detail::record(emulator::MatrixOperation::load_b_pair, 0, second.index(), first.index(), 1,
                  site) = row.address;
}
inline void load_matrix_transposed(FragmentB& first, FragmentB& second,
                                   SharedPointer<std::byte> row, emulator::Site site) {
  *detail::record(emulator::MatrixOperation::load_b_pair_transposed, 0, second.index(),
                  first.index(), 1, site) = row.address;
}

inline std::uint32_t transpose_matrix(std::uint32_t word, emulator::Site site) {
  // Row r, column g of the original is the low or high half of lane 4 r + g / 2's word.
  const std::uint32_t g = emulator::current_lane->index / 4, t = emulator::current_lane->index % 4;
  const std::uint32_t low = emulator::shuffle(word, 8 * t + g / 2, site);
  const std::uint32_t high = emulator::shuffle(word, 8 * t + 4 + g / 2, site);
  const std::uint32_t half = g % 2 * 16;
  return (low >> half & 0xffffu) | (high >> half & 0xffffu) << 16;
}

template <Element E>
inline void mma_m16n8k16(Accumulator& c, const FragmentA& a, const FragmentB& b,
                         emulator::Site site) {
  detail::record(E == Element::f16 ? emulator::MatrixOperation::multiply_f16
                                   : emulator::MatrixOperation::multiply_bf16,
                 c.index(), a.index(), b.index(), 0, site);
}

template <Element E>
inline std::uint32_t pack(float low, float high) {
  if constexpr (E == Element::f16)
    return to_f16(low).bits | std::uint32_t{to_f16(high).bits} << 16;
  else
    return to_bf16(low).bits | std::uint32_t{to_bf16(high).bits} << 16;
}

}  // namespace mlacheck::device
