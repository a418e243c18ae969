#include "cuda/emulator/block.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/emulator/launch.h"

namespace mlacheck::emulator {

constinit thread_local Lane* current_lane [[gnu::tls_model("initial-exec")]] = nullptr;

void Warp::reset() {
  live = runnable = ~0u;
  planned = 0;
  stopped = settling = 0;
  collective = Collective::none;
  arrived = 0;
  time = synced = 1;
  past = {};
  ahead = {};
  ahead_lanes = 0;
  ahead_of = 0;
  matrices.reset();
  for (Lane& lane : lanes) {
    lane.recorded = lane.a_alive = lane.b_alive = lane.c_alive = 0;
    lane.passed = 0;
    lane.passed_last = {};
    lane.waiting = {};
  }
}

void Warp::meet() {
  if (ahead_lanes != 0) {
    past.join(ahead);
    ahead_lanes = 0;
    ahead_of = 0;
  }
  synced = ++time;
  past.all[index] = synced - 1;
  past.partial &= ~(1u << index);
}

void Warp::release_by(const Lane& lane, VectorClock& clock) const {
  clock.join(past);
  if ((ahead_lanes >> lane.index & 1u) != 0) clock.join(ahead);
  clock.add_lanes(static_cast<int>(index), 1u << lane.index, time);
}

void Warp::acquire(const Lane& lane, const VectorClock& clock, std::uint64_t phase) {
  if (ahead_lanes == 0) {
    ahead = clock;
    ahead_of = phase;
  } else if (ahead_of != phase) {
    ahead.join(clock);
    ahead_of = phase;
  }
  ahead_lanes |= 1u << lane.index;
  if (ahead_lanes == live) {
    past.join(ahead);
    ahead_lanes = 0;
    ahead_of = 0;
  }
}

void Block::check_registers() {
  if (last_take.lane == nullptr) return;
  std::uint32_t wanted = 0;
  for (std::uint32_t w = 0; w < warp_count; ++w) wanted += warps[w].registers;
  if (wanted > warp_count * launch_registers())
    report(*last_take.lane, ReportKind::register_misuse, last_take.site,
           fmt::format("the block's {} warps want {} registers a lane together and have {}: who "
                       "takes waits for ever",
                       warp_count, wanted, warp_count * launch_registers()));
}

void report(Lane& lane, ReportKind kind, Space space, const std::string& region,
            std::uint64_t offset, const Site& site, const std::string& message) {
  constexpr std::size_t kMost = 32;
  Block& block = *lane.warp->block;
  for (Report& earlier : block.reports)
    if (earlier.kind == kind && earlier.line == site.line && earlier.column == site.column &&
        earlier.file == site.file) {
      ++earlier.count;
      return;
    }
  if (block.reports.size() >= kMost) return;
  block.reports.push_back({kind, block.launch->name, block.index, block.index_y, lane.thread(),
                           space, region, offset, site.file, site.line, site.column, message, 1});
}

void report(Lane& lane, ReportKind kind, const Site& site, const std::string& message) {
  report(lane, kind, Space::none, {}, 0, site, message);
}

void report_shared(Lane& lane, ReportKind kind, std::uint32_t address, const Site& site,
                   const std::string& message) {
  report(lane, kind, Space::shared, {}, address, site, message);
}

void report_global(Lane& lane, ReportKind kind, std::uintptr_t address, const Site& site,
                   const std::string& message) {
  const Region* region = lane.warp->block->launch->memory->nearest(address);
  report(lane, kind, Space::global, region == nullptr ? "" : region->name,
         region == nullptr ? address : address - region->range.begin, site, message);
}

std::string lane_name(Stamp stamp) {
  return stamp.lane() < kSeveralLanes ? fmt::format("lane {}", stamp.lane()) : "several lanes";
}

std::uint16_t site_index(Lane& lane, const Site& site) {
  Block& block = *lane.warp->block;
  std::uint16_t& cached = block.site_cache[(site.line * 31 + site.column) % 256];
  if (cached < block.sites.size() && block.sites[cached] == site &&
      block.sites[cached].file == site.file)
    return cached;
  const auto it = std::find_if(block.sites.begin(), block.sites.end(), [&](const Site& known) {
    return known == site && known.file == site.file;
  });
  cached = static_cast<std::uint16_t>(it - block.sites.begin());
  if (it == block.sites.end()) block.sites.push_back(site);
  return cached;
}

std::string site_name(Lane& lane, std::uint16_t index) {
  return site_name(lane.warp->block->sites.at(index));
}

std::string site_name(const Site& site) { return fmt::format("{}:{}", site.file, site.line); }

}  // namespace mlacheck::emulator
