#include "cuda/emulator/global_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/emulator/block.h"
#include "cuda/emulator/launch.h"

namespace mlacheck::emulator {
namespace {

bool holds(const Region& region, Interval range) {
  return region.range.begin <= range.begin && range.end <= region.range.end;
}

}  // namespace

void GlobalMemory::declare(const std::string& name, const void* data, std::uint64_t bytes,
                           Access access) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const Interval range = {begin, begin + bytes};
  std::erase_if(regions_, [&](const Region& r) {
    const bool same = r.range.begin == range.begin && r.range.end == range.end;
    const bool overlap = r.range.begin < range.end && range.begin < r.range.end;
    return same || (overlap && (r.access != Access::read || access != Access::read));
  });
  regions_.push_back({name, range, access});
  if (access == Access::write) initialised_.erase(range);
}

const Region* GlobalMemory::find(Interval range, bool write) const {
  for (const Region& region : regions_)
    if (holds(region, range) && (!write || region.access != Access::read)) return &region;
  return nullptr;
}

const Region* GlobalMemory::nearest(std::uintptr_t address) const {
  const Region* best = nullptr;
  for (const Region& region : regions_)
    if (region.range.begin <= address &&
        (best == nullptr || region.range.begin > best->range.begin))
      best = &region;
  return best;
}

void GlobalMemory::begin_launch(bool early) {
  if (early) return;
  written_.clear();
  read_.clear();
}

std::vector<Report> GlobalMemory::end_launch(
    const Launch& launch, const std::vector<std::vector<GlobalRun>>& runs_of_blocks) {
  struct Owned {
    const GlobalRun* run;
    std::uint64_t block;
  };
  std::vector<Owned> writes;
  std::vector<Interval> written;
  std::vector<Interval> read;
  for (std::uint64_t block = 0; block < runs_of_blocks.size(); ++block)
    for (const GlobalRun& run : runs_of_blocks[block]) {
      if (run.write) writes.push_back({&run, block});
      (run.write ? written : read).push_back(run.range);
    }
  std::stable_sort(writes.begin(), writes.end(), [](const Owned& a, const Owned& b) {
    return a.run->range.begin < b.run->range.begin;
  });
  std::vector<Report> reports;
  const auto conflict = [&](const Owned& one, const Owned& other) {
    constexpr std::size_t kMost = 32;
    if (reports.size() >= kMost) return;
    const std::uintptr_t address = std::max(one.run->range.begin, other.run->range.begin);
    const Region* region = nearest(address);
    Report report;
    report.kind = ReportKind::data_race;
    report.kernel = launch.name;
    report.block = static_cast<std::uint32_t>(one.block % launch.blocks);
    report.block_y = static_cast<std::uint32_t>(one.block / launch.blocks);
    report.space = Space::global;
    report.region = region == nullptr ? "" : region->name;
    report.offset = region == nullptr ? address : address - region->range.begin;
    report.file = one.run->site.file;
    report.line = one.run->site.line;
    report.column = one.run->site.column;
    report.message = fmt::format("{} what block ({}, {}) writes at {}",
                                 one.run->write ? "writes" : "reads", other.block % launch.blocks,
                                 other.block / launch.blocks, site_name(other.run->site));
    reports.push_back(std::move(report));
  };
  // A block's own runs are disjoint, so two that overlap are of different blocks.
  std::size_t furthest = 0;
  for (std::size_t i = 1; i < writes.size(); ++i) {
    if (writes[i].run->range.begin < writes[furthest].run->range.end)
      conflict(writes[i], writes[furthest]);
    if (writes[i].run->range.end > writes[furthest].run->range.end) furthest = i;
  }
  for (std::uint64_t block = 0; block < runs_of_blocks.size(); ++block)
    for (const GlobalRun& run : runs_of_blocks[block]) {
      if (run.write) continue;
      auto it = std::partition_point(writes.begin(), writes.end(), [&](const Owned& w) {
        return w.run->range.end <= run.range.begin;
      });
      for (; it != writes.end() && it->run->range.begin < run.range.end; ++it)
        if (it->block != block) conflict({&run, block}, *it);
    }
  initialised_.insert(written);
  written_.insert(written);
  read_.insert(read);
  return reports;
}

void GlobalLog::reset() {
  runs_.clear();
  compact_at_ = 4096;
  last = nullptr;
}

void GlobalLog::add(Interval range, bool write, std::uint16_t site) {
  if (!runs_.empty() && runs_.back().write == write && runs_.back().range.end == range.begin) {
    runs_.back().range.end = range.end;
    return;
  }
  runs_.push_back({range, write, site});
  if (runs_.size() >= compact_at_) compact();
}

void GlobalLog::compact() {
  std::stable_sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) {
    return a.write != b.write ? a.write : a.range.begin < b.range.begin;
  });
  std::size_t kept = 0;
  for (const Run& run : runs_)
    if (kept != 0 && runs_[kept - 1].write == run.write &&
        run.range.begin <= runs_[kept - 1].range.end)
      runs_[kept - 1].range.end = std::max(runs_[kept - 1].range.end, run.range.end);
    else
      runs_[kept++] = run;
  runs_.resize(kept);
  compact_at_ = std::max<std::size_t>(4096, 2 * kept);
}

bool GlobalLog::wrote(Interval range) {
  compact();
  return std::any_of(runs_.begin(), runs_.end(), [&](const Run& run) {
    return run.write && run.range.begin <= range.begin && range.end <= run.range.end;
  });
}

std::vector<GlobalRun> GlobalLog::take(const Block& block) {
  compact();
  std::vector<GlobalRun> runs;
  runs.reserve(runs_.size());
  for (const Run& run : runs_) runs.push_back({run.range, run.write, block.sites[run.site]});
  return runs;
}

bool access_global(Lane& lane, const void* data, std::uint64_t bytes, bool write,
                   const Site& site) {
  Block& block = *lane.warp->block;
  const GlobalMemory& memory = *block.launch->memory;
  GlobalLog& log = block.global;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const Interval range = {address, address + bytes};
  const bool small = bytes <= 16;  // one instruction
  if (small && address % bytes != 0) {
    report_global(lane, ReportKind::misaligned, address, site, fmt::format("{} bytes", bytes));
    return false;
  }
  const Region* region = log.last;
  if (region == nullptr || !holds(*region, range) || (write && region->access == Access::read)) {
    region = memory.find(range, write);
    if (region == nullptr) {
      const bool read_only = write && memory.find(range, false) != nullptr;
      report_global(lane, read_only ? ReportKind::read_only : ReportKind::out_of_bounds, address,
                    site, fmt::format("{} {} bytes", write ? "writes" : "reads", bytes));
      return false;
    }
    log.last = region;
  }
  if (block.launch->early && !lane.sees(kPreviousKernelAgent, Stamp::of(1, 0)) &&
      memory.in_use(range, write))
    report_global(lane, ReportKind::early_access, address, site,
                  fmt::format("{} what a kernel before may not be done with: "
                              "wait_for_previous_kernel comes first",
                              write ? "writes" : "reads"));
  if (!write && region->access == Access::write && !memory.initialised(range) && !log.wrote(range))
    report_global(lane, ReportKind::uninitialised_read, address, site, "nobody has written here");
  if (write || block.launch->early || region->access != Access::read)
    log.add(range, write, site_index(lane, site));
  if (region->access != Access::read) block.global_shadow.note(lane, range, write, site);
  return true;
}

void check_prefetch(Lane& lane, const void* data, std::uint64_t bytes, const Site& site) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % 16 != 0 || bytes % 16 != 0)
    report_global(lane, ReportKind::misaligned, address, site,
                  fmt::format("prefetches {} bytes: expected an address and a number of bytes that "
                              "are multiples of 16",
                              bytes));
  else if (lane.warp->block->launch->memory->find({address, address + bytes}, false) == nullptr)
    report_global(lane, ReportKind::out_of_bounds, address, site,
                  fmt::format("prefetches {} bytes", bytes));
}

}  // namespace mlacheck::emulator
