#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace mlacheck {

// Element types of tensors. The names are those of safetensors in lower case.
enum class DType { f64, f32, f16, bf16, e4m3, e8m0, i64, i32, u8 };

// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::e4m3:
    case DType::e8m0:
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::e4m3:
      return "e4m3";
    case DType::e8m0:
      return "e8m0";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e8m0,
                      DType::i64, DType::i32, DType::u8})
    if (name == name_of(dtype)) return dtype;
  return std::nullopt;
}

}  // namespace mlacheck
