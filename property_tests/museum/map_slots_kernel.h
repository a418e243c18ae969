#pragma once

#include <cstdint>
#include <span>

#include "property_tests/museum/label.h"

namespace mlacheck::museum {

struct MapSlotsCall {
  const mlacheck_map_slots_problem& problem;
  const mlacheck_tensors& tensors;
};

// position -> slot.
struct MapSlotsKernel {
  Label label;
  std::int32_t (*map)(const MapSlotsCall&, std::int32_t position) = nullptr;
};

void run(const MapSlotsKernel& kernel, const MapSlotsCall& call);

std::span<const MapSlotsKernel> map_slots_kernels();  // the honest one first

}  // namespace mlacheck::museum
