#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cuda/plugin/kernel_process_pool.h"
#include "cuda/plugin/kernel_worker.h"

// Calls of the kernels of lying_kernels.cpp: map_slots of eight positions.
namespace mlacheck::testing {

inline constexpr std::array<std::int32_t, 8> kPositions = {3, 1, 4, 1, 5, 9, 2, 6};

inline KernelCall make_call(const std::array<std::int32_t, 8>& positions = kPositions) {
  mlacheck_problem problem = {};
  problem.struct_size = sizeof(problem);
  problem.op = MLACHECK_MAP_SLOTS;
  problem.u.map_slots = {8, 1, 64};
  const std::array inputs = {
      KernelCall::Input{CallTensor::positions, std::as_bytes(std::span(positions))}};
  const std::array outputs = {KernelCall::Output{CallTensor::slots, sizeof(positions)}};
  return KernelCall(problem, inputs, outputs);
}

inline std::span<const std::int32_t> slots(const KernelCall& call) {
  const std::span<const std::byte> bytes = call.tensor(CallTensor::slots);
  return {reinterpret_cast<const std::int32_t*>(bytes.data()), bytes.size() / 4};
}

// The test is its own worker program.
inline std::shared_ptr<KernelProcessPool> pool(const std::string& library, int timeout = 2) {
  return std::make_shared<KernelProcessPool>(
      service_by("/proc/self/exe", library, std::chrono::seconds(timeout)));
}

}  // namespace mlacheck::testing
