#pragma once

#include "cuda/device/launch.h"
#include "cuda/kernels/map_slots.h"

namespace mlacheck::kernels {

// Starts the kernel, after what wrote the positions.
inline void launch_map_slots(device::Stream& stream, const MapSlotsArguments& arguments) {
  constexpr unsigned kOfBlock = MapSlots::kThreads * MapSlots::kPerThread;
  device::LaunchShape shape;
  shape.blocks = (arguments.count + kOfBlock - 1) / kOfBlock;
  shape.threads = MapSlots::kThreads;
  shape.may_start_early = true;
  device::launch(stream, map_slots, shape, arguments, "map_slots");
}

}  // namespace mlacheck::kernels
