#include "reference/layer/rope.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "reference/arithmetic/sincos.h"
#include "reference/layer/rope_frequencies.h"
#include "reference/operators/parallel_rows.h"
#include "reference/operators/views.h"

namespace mlacheck {

RopeTable rope_table(const RopeParameters& rope, std::int64_t dim,
                     std::span<const std::int64_t> positions, DType dtype) {
  const std::vector<float> frequencies = rope_frequencies(rope, dim);
  const float factor = rope_attention_factor(rope);
  const std::int64_t rows = std::ssize(positions);
  // No frequency is above 1, so the angles are in the range of sincos.
  constexpr std::int64_t kMaxPosition = std::int64_t{1} << 31;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t position = positions[static_cast<std::size_t>(r)];
    if (position < -kMaxPosition || position > kMaxPosition)
      throw std::invalid_argument(fmt::format(
          "rope_table: positions[{}]: expected at most 2^31 in magnitude, got {}", r, position));
  }
  RopeTable table{Matrix(rows, dim / 2), Matrix(rows, dim / 2)};
  detail::parallel_rows(rows, [&](std::int64_t r) {
    const auto position = static_cast<float>(positions[static_cast<std::size_t>(r)]);
    for (std::int64_t i = 0; i < dim / 2; ++i) {
      const SinCos at = sincos_f32(position * frequencies[static_cast<std::size_t>(i)]);
      table.cos.row(r)[i] = round_to(dtype, at.cos * factor);
      table.sin.row(r)[i] = round_to(dtype, at.sin * factor);
    }
  });
  return table;
}

void apply_rope(std::span<float> x, const RopeTable& table, std::int64_t position_row,
                RopePairing pairing, int roundings) {
  const std::int64_t pairs = table.cos.cols;
  if (std::ssize(x) != 2 * pairs)
    throw std::invalid_argument(
        fmt::format("apply_rope: expected {} elements, got {}", 2 * pairs, x.size()));
  if (roundings != 0 && roundings != 1 && roundings != 3)
    throw std::invalid_argument(
        fmt::format("apply_rope: roundings: expected 0, 1 or 3, got {}", roundings));
  const DType product = roundings == 3 ? DType::bf16 : DType::f32;
  const DType result = roundings >= 1 ? DType::bf16 : DType::f32;
  const bool interleaved = pairing == RopePairing::interleaved;
  const float* cos = table.cos.row(position_row);
  const float* sin = table.sin.row(position_row);
  for (std::int64_t i = 0; i < pairs; ++i) {
    float& first = x[static_cast<std::size_t>(interleaved ? 2 * i : i)];
    float& second = x[static_cast<std::size_t>(interleaved ? 2 * i + 1 : i + pairs)];
    const float a = first;
    const float b = second;
    first = round_to(result, round_to(product, a * cos[i]) - round_to(product, b * sin[i]));
    second = round_to(result, round_to(product, b * cos[i]) + round_to(product, a * sin[i]));
  }
}

void reinterleave_from_hf(std::span<float> x) {
  const std::vector<float> hf(x.begin(), x.end());
  const std::size_t pairs = x.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    x[2 * i] = hf[i];
    x[2 * i + 1] = hf[pairs + i];
  }
}

}  // namespace mlacheck
