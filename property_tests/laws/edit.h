#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "fixtures/case.h"
#include "fixtures/counter_random.h"

// Changing a case in place: its problem points into its tensors, so it sees every change.
namespace mlacheck::law {

inline Tensor& tensor(std::vector<Tensor>& inputs, std::string_view name) {
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const Tensor& t) { return t.name == name; });
  if (found == inputs.end()) throw std::logic_error("a case has no such tensor");
  return *found;
}

inline bool has(const std::vector<Tensor>& inputs, std::string_view name) {
  return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& t) { return t.name == name; });
}

template <class T>
std::span<T> elements(Tensor& tensor) {
  return {reinterpret_cast<T*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(T)};
}

// A random order of n things.
inline std::vector<std::int64_t> order_of(std::int64_t n, std::uint64_t seed,
                                          std::string_view stream) {
  std::vector<std::int64_t> order;
  if (n == 0) return order;
  const RandomPermutation place(seed, stream, static_cast<std::uint64_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    order.push_back(static_cast<std::int64_t>(place(static_cast<std::uint64_t>(i))));
  return order;
}

// Piece i of the bytes becomes what was piece order[i]; pieces of `size` bytes, in groups of
// order.size(); order repeats for every group.
inline void reorder(std::span<std::byte> bytes, std::size_t size,
                    const std::vector<std::int64_t>& order) {
  const std::vector<std::byte> before(bytes.begin(), bytes.end());
  const std::size_t group = size * order.size();
  for (std::size_t start = 0; group != 0 && start + group <= bytes.size(); start += group)
    for (std::size_t i = 0; i < order.size(); ++i)
      std::memcpy(bytes.data() + start + i * size,
                  before.data() + start + static_cast<std::size_t>(order[i]) * size, size);
}

inline std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / size_of(tensor.dtype));
  load_row(tensor.bytes.data(), tensor.dtype, std::ssize(values), values.data());
  return values;
}

inline void set_values(Tensor& tensor, const std::vector<float>& values) {
  store_row(values.data(), tensor.dtype, std::ssize(values), tensor.bytes.data());
}

}  // namespace mlacheck::law
