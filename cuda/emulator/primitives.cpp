#include "cuda/emulator/primitives.h"

#include <fmt/format.h>

#include <cstring>

#include "cuda/emulator/call_site_log.h"
#include "cuda/emulator/launch.h"

namespace mlacheck::emulator {
namespace {

// A call of a primitive that a test may change: whether it is to happen, and by how much its
// argument is off.
struct Call {
  bool happens = true;
  std::uint32_t amount = 0;
};

Call observe(const Lane& lane, Primitive primitive, const Site& site) {
  const Launch& launch = *lane.warp->block->launch;
  if (launch.call_sites != nullptr) launch.call_sites->add(primitive, site);
  if (launch.mutations != nullptr)
    for (const Mutation& mutation : *launch.mutations)
      if (mutation.applies(primitive, site))
        return {mutation.amount != 0, static_cast<std::uint32_t>(mutation.amount)};
  return {};
}

inline Call call(const Lane& lane, Primitive primitive, const Site& site) {
  if (lane.warp->block->observed) [[unlikely]]
    return observe(lane, primitive, site);
  return {};
}

alignas(16) constexpr std::byte kZeros[kMostZeros] = {};

}  // namespace

std::string_view name_of(Primitive primitive) {
  switch (primitive) {
    case Primitive::sync_block:
      return "sync_block";
    case Primitive::sync_named:
      return "sync_named";
    case Primitive::sync_warp:
      return "sync_warp";
    case Primitive::initialise:
      return "initialise";
    case Primitive::publish_barriers:
      return "publish_barriers";
    case Primitive::arrive:
      return "arrive";
    case Primitive::arrive_expecting:
      return "arrive_expecting";
    case Primitive::wait:
      return "wait";
    case Primitive::copy_bulk:
      return "copy_bulk";
    case Primitive::wait_for_previous_kernel:
      return "wait_for_previous_kernel";
  }
  return "?";
}

void require_shared(std::size_t layout_bytes) {
  Lane& lane = *current_lane;
  SharedMemory& shared = lane.warp->block->shared;
  if (layout_bytes <= shared.size()) return;
  report_shared(lane, ReportKind::out_of_bounds, shared.size(), {},
                fmt::format("the kernel's layout needs {} bytes, the launch gives {}", layout_bytes,
                            shared.size()));
  abandon(lane);
}

void read_shared(std::uint32_t from, void* to, std::uint32_t bytes, const Site& site) {
  Lane& lane = *current_lane;
  SharedMemory& shared = lane.warp->block->shared;
  if (shared.read(lane, from, bytes, site))
    std::memcpy(to, shared.data() + from, bytes);
  else
    std::memset(to, 0xff, bytes);
}

void write_shared(std::uint32_t to, const void* from, std::uint32_t bytes, const Site& site) {
  Lane& lane = *current_lane;
  settle(lane);
  SharedMemory& shared = lane.warp->block->shared;
  if (shared.write(lane, to, bytes, site)) std::memcpy(shared.data() + to, from, bytes);
}

bool begin_atomic(std::uint32_t at, const Site& site) {
  Lane& lane = *current_lane;
  settle(lane);
  return lane.warp->block->shared.update(lane, at, site);
}

void read_global(const void* from, void* to, std::uint32_t bytes, const Site& site) {
  if (access_global(*current_lane, from, bytes, false, site))
    std::memcpy(to, from, bytes);
  else
    std::memset(to, 0xff, bytes);
}

void write_global(void* to, const void* from, std::uint32_t bytes, const Site& site) {
  if (access_global(*current_lane, to, bytes, true, site)) std::memcpy(to, from, bytes);
}

void prefetch(const void* from, std::uint32_t bytes, const Site& site) {
  check_prefetch(*current_lane, from, bytes, site);
}

const std::byte* zeros() { return kZeros; }

void sync_warp(const Site& site) {
  Lane& lane = *current_lane;
  if (!call(lane, Primitive::sync_warp, site).happens) return;
  meet_warp(lane, Collective::sync, site, [&] { lane.warp->meet(); });
}

std::uint32_t shuffle(std::uint32_t value, std::uint32_t from_lane, const Site& site) {
  Lane& lane = *current_lane;
  Warp& warp = *lane.warp;
  warp.value[lane.index] = value;
  warp.from[lane.index] = from_lane % kWarpLanes;
  meet_warp(lane, Collective::shuffle, site, [&] {
    for (std::uint32_t i = 0; i < kWarpLanes; ++i) warp.result[i] = warp.value[warp.from[i]];
  });
  return warp.result[lane.index];
}

std::uint32_t ballot(bool condition, const Site& site) {
  Lane& lane = *current_lane;
  Warp& warp = *lane.warp;
  warp.value[lane.index] = condition ? 1 : 0;
  meet_warp(lane, Collective::ballot, site, [&] {
    std::uint32_t bits = 0;
    for (std::uint32_t i = 0; i < kWarpLanes; ++i) bits |= warp.value[i] << i;
    for (std::uint32_t& result : warp.result) result = bits;
  });
  return warp.result[lane.index];
}

void change_registers(std::uint32_t registers, bool takes, const Site& site) {
  Lane& lane = *current_lane;
  Warp& warp = *lane.warp;
  meet_warp(lane, Collective::registers, site, [&] {
    if (takes ? registers < warp.registers : registers > warp.registers)
      report(lane, ReportKind::register_misuse, site,
             fmt::format("{} {} registers where each lane has {}", takes ? "takes" : "gives",
                         registers, warp.registers));
    warp.registers = registers;
    if (takes) warp.block->last_take = {&lane, site};
  });
}

void sync_block(const Site& site) {
  Lane& lane = *current_lane;
  if (!call(lane, Primitive::sync_block, site).happens) return;
  lane.warp->block->barriers.sync(lane, 0, 0, site);
}

void sync_named(std::uint32_t number, std::uint32_t threads, const Site& site) {
  Lane& lane = *current_lane;
  const Call made = call(lane, Primitive::sync_named, site);
  if (made.happens) lane.warp->block->barriers.sync(lane, number, threads + made.amount, site);
}

void initialise(std::uint32_t barrier, std::uint32_t arrivals, const Site& site) {
  Lane& lane = *current_lane;
  const Call made = call(lane, Primitive::initialise, site);
  if (made.happens)
    lane.warp->block->barriers.initialise(lane, barrier, arrivals + made.amount, site);
}

void publish_barriers(const Site& site) {
  Lane& lane = *current_lane;
  if (call(lane, Primitive::publish_barriers, site).happens)
    lane.warp->block->barriers.publish(lane);
}

void arrive(std::uint32_t barrier, const Site& site) {
  Lane& lane = *current_lane;
  if (call(lane, Primitive::arrive, site).happens)
    lane.warp->block->barriers.arrive(lane, barrier, 0, site);
}

void arrive_expecting(std::uint32_t barrier, std::uint32_t bytes, const Site& site) {
  Lane& lane = *current_lane;
  const Call made = call(lane, Primitive::arrive_expecting, site);
  if (made.happens) lane.warp->block->barriers.arrive(lane, barrier, bytes + made.amount, site);
}

void wait(std::uint32_t barrier, std::uint32_t parity, const Site& site) {
  Lane& lane = *current_lane;
  const Call made = call(lane, Primitive::wait, site);
  if (made.happens) lane.warp->block->barriers.wait(lane, barrier, parity + made.amount, site);
}

void copy_bulk(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier,
               const Site& site) {
  Lane& lane = *current_lane;
  const Call made = call(lane, Primitive::copy_bulk, site);
  if (made.happens)
    lane.warp->block->barriers.copy(lane, to, from, bytes + made.amount, barrier, site);
}

void wait_for_previous_kernel(const Site& site) {
  Lane& lane = *current_lane;
  if (!call(lane, Primitive::wait_for_previous_kernel, site).happens) return;
  settle(lane);
  VectorClock clock;
  clock.all[kPreviousKernelAgent] = 1;
  lane.warp->acquire(lane, clock, ~std::uint64_t{0});
}

void report_registers(std::uint32_t most, const char* what) {
  Lane& lane = *current_lane;
  report(lane, ReportKind::out_of_bounds, {},
         fmt::format("more than {} {} of a warp alive at one time", most, what));
  abandon(lane);
}

}  // namespace mlacheck::emulator
