#include "reference/arithmetic/tensor_core_rules.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "reference/formats/e4m3.h"
#include "reference/formats/f16.h"

namespace mlacheck {

std::string_view name_of(Lowering lowering) {
  switch (lowering) {
    case Lowering::hmma16_f25:
      return "hmma16_f25";
    case Lowering::hmma8_f24:
      return "hmma8_f24";
    case Lowering::qmma32_f25:
      return "qmma32_f25";
    case Lowering::fp8_emulated_sm90:
      return "fp8_emulated_sm90";
    case Lowering::qmma16_f13:
      return "qmma16_f13";
  }
  return "?";
}

int mma_k(Mma mma) { return detail::rules_of(mma).k; }

namespace detail {
namespace {

std::string_view elements_of(Lowering lowering) {
  return lowering == Lowering::hmma16_f25 || lowering == Lowering::hmma8_f24 ? "f16 or bf16"
                                                                             : "e4m3";
}

}  // namespace

MmaRules rules_of(Mma mma) {
  const bool e4m3 = mma.element == DType::e4m3;
  const bool half = mma.element == DType::f16 || mma.element == DType::bf16;
  const FloatFormat& format = mma.element == DType::bf16 ? kBf16 : kF16;
  switch (mma.lowering) {
    case Lowering::hmma16_f25:
      if (half) return {format, 16, 16, 25, 23, -133, false, false};
      break;
    case Lowering::hmma8_f24:
      if (half) return {format, 16, 8, 24, 23, -132, false, false};
      break;
    case Lowering::qmma32_f25:
      if (e4m3) return {kE4m3, 32, 32, 25, 23, -133, false, false};
      break;
    case Lowering::fp8_emulated_sm90:
      if (e4m3) return {kF16, 32, 16, 25, 23, -133, true, true};
      break;
    case Lowering::qmma16_f13:
      if (e4m3) return {kE4m3, 32, 16, 13, 13, -132, false, false};
      break;
  }
  throw std::invalid_argument(fmt::format("mma: lowering {} takes {}, got {}",
                                          name_of(mma.lowering), elements_of(mma.lowering),
                                          name_of(mma.element)));
}

void require_k(Mma mma, int k) {
  const int expected = mma_k(mma);
  if (k != expected)
    throw std::invalid_argument(fmt::format("mma: {} by {} has K = {}, got {}",
                                            name_of(mma.element), name_of(mma.lowering), expected,
                                            k));
}

std::uint16_t f16_bits_of_e4m3(std::uint8_t bits) {
  static constexpr auto kTable = [] {
    std::array<std::uint16_t, 256> table{};
    for (unsigned i = 0; i < 256; ++i)
      table[i] = to_f16(to_float(E4m3{static_cast<std::uint8_t>(i)})).bits;
    return table;
  }();
  return kTable[bits];
}

}  // namespace detail
}  // namespace mlacheck
