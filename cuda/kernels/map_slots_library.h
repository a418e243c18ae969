#pragma once

#include "cuda/kernels/library_support.h"
#include "cuda/kernels/map_slots_launch.h"
#include "cuda/kernels/plan_support.h"

// map_slots as a kernel of the library.
namespace mlacheck::kernels {

struct MapSlotsKernel {
  static std::string refusal(const mlacheck_map_slots_problem& p) {
    if (p.count < 0 || p.count > kInt32Max) return says("count", p.count, "0 ... 2^31 - 1");
    if (p.blocks < 0) return says("blocks", p.blocks, "at least 0");
    if (p.block_size < 1 || p.block_size > kInt32Max)
      return says("block_size", p.block_size, "1 ... 2^31 - 1");
    return "";
  }

  static int supports(const mlacheck_problem* problem, char* why, std::size_t why_size) {
    return guarded(why, why_size, 0, [&] {
      if (problem->op != MLACHECK_MAP_SLOTS)
        return "op " + std::to_string(problem->op) + ": this kernel runs map_slots (5)";
      std::string reason = refusal(problem->u.map_slots);
      return reason.empty() ? device::machine().refusal : reason;
    });
  }

  static int workspace_size(const mlacheck_problem*, std::uint64_t* bytes) {
    *bytes = 0;
    return 0;
  }

  static int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void*,
                 std::uint64_t, void* stream_handle, char* why, std::size_t why_size) {
    return guarded(why, why_size, 1, [&]() -> std::string {
      using device::Access;
      const mlacheck_map_slots_problem& p = problem->u.map_slots;
      const mlacheck_tensors& t = *tensors;
      std::string reason =
          first_of({absence("positions", p.count > 0, t.positions),
                    absence("block_table", p.count > 0 && p.blocks > 0, t.block_table),
                    absence("slots", p.count > 0, t.slots)});
      if (!reason.empty()) return reason;
      device::Stream stream(stream_handle);
      declare_tensor(stream, "positions", t.positions, p.count * 4, Access::read);
      declare_tensor(stream, "block_table", t.block_table, p.blocks * 4, Access::read);
      declare_tensor(stream, "slots", t.slots, p.count * 4, Access::write);
      MapSlotsArguments a = {};
      a.positions = t.positions;
      a.slots = t.slots;
      a.count = static_cast<std::uint32_t>(p.count);
      a.columns = device::Divisor(std::max(a.count, 1u));
      a.block_table = t.block_table;
      a.stride = a.blocks = p.blocks;
      a.block_size = device::Divisor(static_cast<std::uint32_t>(p.block_size));
      launch_map_slots(stream, a);
      return "";
    });
  }
};

inline constexpr mlacheck_kernel kMapSlots =
    declared<MapSlotsKernel>(MLACHECK_MAP_SLOTS, "map_slots", "any block table", kExactContract);

}  // namespace mlacheck::kernels
