#include "reference/verdict/bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "reference/operators/views.h"

namespace mlacheck {
namespace {

constexpr std::int64_t kAround = 3;  // neighbours shown on each side

class Elements {
 public:
  Elements(const void* data, DType dtype)
      : bytes_(static_cast<const std::byte*>(data)), dtype_(dtype) {}

  std::uint64_t bits(std::int64_t i) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, at(i), size_of(dtype_));  // little endian
    return bits;
  }

  std::string value(std::int64_t i) const {
    if (dtype_ == DType::i32) return fmt::format("{}", static_cast<std::int32_t>(bits(i)));
    if (dtype_ == DType::u8) return fmt::format("{}", bits(i));
    float value;
    load_row(at(i), dtype_, 1, &value);
    return fmt::format("{:.9g}", value);
  }

  double number(std::int64_t i) const {
    if (dtype_ == DType::i32) return static_cast<std::int32_t>(bits(i));
    if (dtype_ == DType::u8) return static_cast<double>(bits(i));
    float value;
    load_row(at(i), dtype_, 1, &value);
    return static_cast<double>(value);
  }

  std::string around(std::int64_t center, std::int64_t n) const {
    std::string text;
    for (std::int64_t i = std::max<std::int64_t>(center - kAround, 0);
         i < std::min(center + kAround + 1, n); ++i)
      text += i == center ? fmt::format(" >{}<", value(i)) : fmt::format(" {}", value(i));
    return text;
  }

 private:
  const std::byte* at(std::int64_t i) const {
    return bytes_ + i * static_cast<std::int64_t>(size_of(dtype_));
  }

  const std::byte* bytes_;
  DType dtype_;
};

std::string coordinates(std::int64_t i, std::span<const std::int64_t> shape) {
  std::string text;
  for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis])
    text = fmt::format("{}{}{}", i % shape[axis], text.empty() ? "" : ", ", text);
  return fmt::format("[{}]", text);
}

}  // namespace

Finding compare_bits(std::string stage, const void* expected, const void* got, DType dtype,
                     std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  Finding finding;
  finding.stage = std::move(stage);
  finding.elements = n;
  if (n == 0 || std::memcmp(expected, got, static_cast<std::size_t>(n) * size_of(dtype)) == 0)
    return finding;

  const Elements want(expected, dtype), have(got, dtype);
  std::int64_t first = -1, worst = -1;
  double largest = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (want.bits(i) == have.bits(i)) continue;
    if (first < 0) first = i;
    ++finding.failed;
    double difference = std::abs(want.number(i) - have.number(i));
    if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
    if (difference > largest) {
      largest = difference;
      worst = i;
    }
  }
  finding.status = Status::fail;
  const auto digits = 2 * size_of(dtype);
  finding.detail = fmt::format(
      "{} of {} {} elements differ, the first at {}: expected {} (0x{:0{}x}), got {} (0x{:0{}x}); "
      "around it expected{}, got{}",
      finding.failed, n, name_of(dtype), coordinates(first, shape), want.value(first),
      want.bits(first), digits, have.value(first), have.bits(first), digits, want.around(first, n),
      have.around(first, n));
  if (worst != first)
    finding.detail += fmt::format("; the furthest off at {}: expected {}, got {}",
                                  coordinates(worst, shape), want.value(worst), have.value(worst));
  return finding;
}

}  // namespace mlacheck
