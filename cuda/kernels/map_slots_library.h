#pragma once

#include "cuda/kernels/library_support.h"
#include "cuda/kernels/map_slots_launch.h"
#include "cuda/kernels/plan_support.h"

// map_slots as a kernel of the library.
namespace mlacheck::kernels {

struct MapSlotsKernel {
  using Problem = mlacheck_map_slots_problem;
  static constexpr mlacheck_operator kOp = MLACHECK_MAP_SLOTS;
  static constexpr const char* kOpName = "map_slots (5)";
  static const Problem& problem(const mlacheck_problem& p) { return p.u.map_slots; }

  static std::string refusal_of(const Problem& p) {
    if (p.count < 0 || p.count > kInt32Max) return says("count", p.count, "0 ... 2^31 - 1");
    if (p.blocks < 0) return says("blocks", p.blocks, "at least 0");
    if (p.block_size < 1 || p.block_size > kInt32Max)
      return says("block_size", p.block_size, "1 ... 2^31 - 1");
    return "";
  }
  static std::uint64_t bytes(const Problem&, unsigned) { return 0; }
  static std::string flaw(const Problem& p, const mlacheck_tensors& t) {
    return first_of({absence("positions", p.count > 0, t.positions),
                     absence("block_table", p.count > 0 && p.blocks > 0, t.block_table),
                     absence("slots", p.count > 0, t.slots)});
  }
  static void start(device::Stream& stream, const Problem& p, const mlacheck_tensors& t, void*,
                    unsigned) {
    using device::Access;
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
  }
};

inline constexpr mlacheck_kernel kMapSlots = declared<Functions<MapSlotsKernel>>(
    MLACHECK_MAP_SLOTS, "map_slots", "any block table", kExactContract);

}  // namespace mlacheck::kernels
