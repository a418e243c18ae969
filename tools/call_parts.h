#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/plugin/kernel_call.h"
#include "reference/operators/views.h"

// What the calls of all operators are put together from.
namespace mlacheck::detail {

// The ABI's number; throws std::invalid_argument where it has none.
std::int32_t dtype_of(DType dtype);

// The inputs and outputs of a call while it is put together.
struct CallParts {
  std::vector<KernelCall::Input> inputs;
  std::vector<KernelCall::Output> outputs;

  // An absent (null) optional input is left out.
  template <class T>
  void input(CallTensor tensor, const T* data, std::int64_t count) {
    if (data != nullptr)
      inputs.push_back({tensor, std::as_bytes(std::span(data, static_cast<std::size_t>(count)))});
  }
  void input(CallTensor tensor, const void* data, std::int64_t bytes) {
    input(tensor, static_cast<const std::byte*>(data), data == nullptr ? 0 : bytes);
  }
  void output(CallTensor tensor, std::int64_t count, std::size_t element_bytes) {
    outputs.push_back({tensor, static_cast<std::size_t>(count) * element_bytes});
  }
  std::unique_ptr<KernelCall> call(const mlacheck_problem& problem,
                                   const CallSeries& series = {}) const {
    return std::make_unique<KernelCall>(problem, inputs, outputs, series);
  }
};

mlacheck_problem problem_of(mlacheck_operator op);
mlacheck_cache cache_of(const RowsView& rows);

// Bytes from the start of the cache to the end of its last row.
std::int64_t extent(const RowsView& rows, std::int64_t dim);
// To the last element; of a series, whose queries are a case's, to the end of the slack behind it.
std::int64_t query_bytes(const QueryView& q, std::int64_t tokens, std::int64_t heads,
                         std::int64_t dim, const CallSeries& series);

}  // namespace mlacheck::detail
