#include "property_tests/stages/unwritten.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "tools/kernel_contract.h"

namespace mlacheck::stages {
namespace {

std::span<const std::byte> element(const KernelCall& call, CallTensor tensor, std::size_t i) {
  const bool is_out = tensor == CallTensor::out;
  const std::size_t bytes =
      is_out ? size_of(dtype_of(call.problem().u.sparse_attention.out_dtype)) : 4;
  return call.tensor(tensor).subspan(i * bytes, bytes);
}

Suspect suspect(CallTensor output) {
  return {"output", fmt::format("elements of {} were never written", tensor_name(output)), 0};
}

}  // namespace

std::vector<Suspect> unwritten(const KernelCall& call) {
  std::vector<Suspect> suspects;
  for (std::size_t i = 0; i < kCallTensors; ++i) {
    const auto tensor = static_cast<CallTensor>(i);
    const std::size_t bytes = call.tensor(tensor).size();
    if (!is_output(tensor) || bytes == 0) continue;
    bool found = false;
    for (std::size_t at = 0; at < bytes / element(call, tensor, 0).size() && !found; ++at)
      found = is_unwritten(element(call, tensor, at), tensor);
    if (found) suspects.push_back(suspect(tensor));
  }
  return suspects;
}

std::vector<Suspect> unwritten(const KernelCall& call, const IndexScoresProblem& problem,
                               bool masked) {
  if (masked) return unwritten(call);
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    const std::int64_t begin = problem.key_begin == nullptr ? 0 : problem.key_begin[t];
    const std::int64_t end = problem.key_end == nullptr ? problem.key_count : problem.key_end[t];
    for (std::int64_t s = begin; s < end; ++s)
      if (is_unwritten(element(call, CallTensor::scores_out,
                               static_cast<std::size_t>(t * problem.key_count + s)),
                       CallTensor::scores_out))
        return {suspect(CallTensor::scores_out)};
  }
  return {};
}

}  // namespace mlacheck::stages
