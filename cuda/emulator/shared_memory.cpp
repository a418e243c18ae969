#include "cuda/emulator/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cuda/emulator/block.h"

namespace mlacheck::emulator {
namespace {

constexpr std::uint32_t kGranule = 16;

}  // namespace

void SharedMemory::reset(std::uint32_t bytes, int warps) {
  size_ = bytes;
  warps_ = warps;
  bytes_.assign(bytes + 128, std::byte{0xff});
  data_ = bytes_.data();
  data_ += -reinterpret_cast<std::uintptr_t>(data_) % 128;
  const std::size_t granules = (bytes + kGranule - 1) / kGranule;
  writes_.assign(granules, {});
  reads_.assign(granules * static_cast<std::size_t>(warps), {});
  atomics_.clear();
  parts_.assign(granules, 0);
}

inline bool SharedMemory::allowed(Lane& lane, std::uint32_t address, std::uint32_t bytes,
                                  const Site& site, const char* what) {
  // A power of two.
  if ((address & (bytes - 1)) == 0 && std::uint64_t{address} + bytes <= size_) [[likely]]
    return true;
  const bool misaligned = address % bytes != 0;
  report_shared(lane, misaligned ? ReportKind::misaligned : ReportKind::out_of_bounds, address,
                site, fmt::format("{} of {} bytes; the block has {}", what, bytes, size_));
  return false;
}

void SharedMemory::split(std::uint32_t granule, State into) {
  const Write whole = writes_[granule];
  const auto warps = static_cast<std::size_t>(warps_);
  if (parts_[granule] == 0) {
    parts_[granule] = static_cast<std::uint32_t>(writes_.size());
    writes_.resize(writes_.size() + kGranule);
    reads_.resize(reads_.size() + kGranule * warps);
    if (!atomics_.empty()) atomics_.resize(reads_.size());
  }
  const std::size_t first = parts_[granule];
  const bool had_words = (whole.state & kWords) != 0;
  for (std::uint32_t i = 0; i < kGranule; ++i) {
    if (had_words && i % 4 == 0) continue;
    const std::size_t from = had_words ? first + i / 4 * 4 : granule;
    writes_[first + i] = writes_[from];
    for (std::vector<Stamp>* stamps : {&reads_, &atomics_})
      if (!stamps->empty())
        std::copy_n(&(*stamps)[from * warps], warps, &(*stamps)[(first + i) * warps]);
  }
  writes_[granule].state = static_cast<std::uint8_t>(into);
}

template <class Visit>
void SharedMemory::visit_parts(std::uint32_t address, std::uint32_t bytes, Visit visit) {
  const std::uint32_t granule = address / kGranule;
  const auto is_split = [&] { return writes_[granule].state & (kWords | kBytes); };
  if (bytes == kGranule && is_split() == 0) return visit(granule, address);
  const State needed = bytes < 4 ? kBytes : kWords;
  if (is_split() == 0 || (needed == kBytes && is_split() == kWords)) split(granule, needed);
  const std::uint32_t step = is_split() == kBytes ? 1 : 4;
  for (std::uint32_t i = 0; i < bytes; i += step)
    visit(parts_[granule] + (address + i) % kGranule, address + i);
}

void SharedMemory::report_read(const Write& write, Lane& lane, std::uint32_t address,
                               const Site& site) {
  if ((write.state & kInFlight) != 0)
    return report_shared(
        lane, ReportKind::missing_wait, address, site,
        "touches the target of a copy that is in flight, issued at " + site_name(lane, write.site));
  if ((write.state & kInitialised) == 0)
    return report_shared(lane, ReportKind::uninitialised_read, address, site,
                         "nobody has written here");
  if (write.agent >= kFirstBarrierAgent)
    return report_shared(
        lane, ReportKind::missing_wait, address, site,
        "does not wait for the barrier of the copy issued at " + site_name(lane, write.site));
  const char* how = (write.state & kAtomic) != 0 ? "updated, at last" : "written";
  report_shared(lane, ReportKind::data_race, address, site,
                fmt::format("{} by warp {} {} at {}, and nothing orders the two", how, write.agent,
                            lane_name(write.stamp), site_name(lane, write.site)));
}

bool SharedMemory::sees_write(std::size_t record, const Lane& lane, bool whole_warp) const {
  const auto sees = [&](int agent, Stamp stamp) {
    return whole_warp ? stamp.time() <= lane.warp->past.all[agent] : lane.sees(agent, stamp);
  };
  const Write& write = writes_[record];
  if ((write.state & kAtomic) == 0) return sees(write.agent, write.stamp);
  for (int warp = 0; warp < warps_; ++warp)
    if (!sees(warp,
              atomics_[record * static_cast<std::size_t>(warps_) + static_cast<std::size_t>(warp)]))
      return false;
  return true;
}

inline void SharedMemory::note_read(std::size_t record, Lane& lane, bool whole_warp,
                                    std::uint32_t address, const Site& site) {
  const Write& write = writes_[record];
  const Warp& warp = *lane.warp;
  if (write.state != kInitialised || write.stamp.time() > warp.past.all[write.agent]) [[unlikely]] {
    const bool written = (write.state & ~kAtomic) == kInitialised;
    if (!written || !sees_write(record, lane, whole_warp)) report_read(write, lane, address, site);
  }
  Stamp& read = reads_[record * static_cast<std::size_t>(warps_) + warp.index];
  read = noted(read, lane, whole_warp);
}

void SharedMemory::check_overwrite(std::size_t record, Lane& lane, std::uint32_t address,
                                   bool copies, const Site& site) {
  const Write& write = writes_[record];
  if (write.state != 0 && ((write.state & kInFlight) != 0 || !sees_write(record, lane, false)))
      [[unlikely]]
    report_read(write, lane, address, site);
  check_readers(record, lane, address, copies, site);
}

inline void SharedMemory::check_readers(std::size_t record, Lane& lane, std::uint32_t address,
                                        bool copies, const Site& site) {
  const Stamp* reads = &reads_[record * static_cast<std::size_t>(warps_)];
  const VectorClock& past = lane.warp->past;
  std::int32_t behind = 0;  // negative once one of them is
  for (int warp = 0; warp < warps_; ++warp) behind |= past.all[warp] - reads[warp].time();
  if (behind >= 0) [[likely]]
    return;
  for (int warp = 0; warp < warps_; ++warp)
    if (!lane.sees(warp, reads[warp]))
      report_shared(
          lane, copies ? ReportKind::missing_wait : ReportKind::data_race, address, site,
          fmt::format("{} what warp {} {} may still read",
                      copies ? "a copy overwrites" : "overwrites", warp, lane_name(reads[warp])));
}

bool SharedMemory::read(Lane& lane, std::uint32_t address, std::uint32_t bytes, const Site& site) {
  if (!allowed(lane, address, bytes, site, "reads")) return false;
  visit_parts(address, bytes, [&](std::size_t record, std::uint32_t at) {
    note_read(record, lane, false, at, site);
  });
  return true;
}

bool SharedMemory::read_row(Lane& lane, std::uint32_t address, const Site& site) {
  if (!allowed(lane, address, kGranule, site, "reads a row")) return false;
  visit_parts(address, kGranule, [&](std::size_t record, std::uint32_t at) {
    note_read(record, lane, true, at, site);
  });
  return true;
}

bool SharedMemory::write(Lane& lane, std::uint32_t address, std::uint32_t bytes, const Site& site) {
  if (!allowed(lane, address, bytes, site, "writes")) return false;
  const Warp& warp = *lane.warp;
  const Write write = {Stamp::of(warp.time, lane.index), static_cast<std::uint8_t>(warp.index),
                       kInitialised, site_index(lane, site)};
  visit_parts(address, bytes, [&](std::size_t record, std::uint32_t at) {
    check_overwrite(record, lane, at, false, site);
    writes_[record] = write;
  });
  if (bytes == kGranule) writes_[address / kGranule] = write;
  return true;
}

bool SharedMemory::update(Lane& lane, std::uint32_t address, const Site& site) {
  if (!allowed(lane, address, sizeof(std::uint32_t), site, "updates")) return false;
  if (atomics_.empty()) atomics_.resize(reads_.size());
  const Warp& warp = *lane.warp;
  visit_parts(address, sizeof(std::uint32_t), [&](std::size_t record, std::uint32_t at) {
    Write& write = writes_[record];
    Stamp* atomics = &atomics_[record * static_cast<std::size_t>(warps_)];
    if ((write.state & kAtomic) == 0) {
      if (write.state != kInitialised || !lane.sees(write.agent, write.stamp))
        report_read(write, lane, at, site);
      std::fill_n(atomics, warps_, Stamp{});
    }
    check_readers(record, lane, at, false, site);
    atomics[warp.index] = noted(atomics[warp.index], lane, false);
    write = {Stamp::of(warp.time, lane.index), static_cast<std::uint8_t>(warp.index),
             kInitialised | kAtomic, site_index(lane, site)};
  });
  return true;
}

void SharedMemory::begin_copy(Lane& lane, std::uint32_t to, std::uint32_t bytes, int agent,
                              std::int32_t time, const Site& site) {
  const Write write = {Stamp::of(time, kSeveralLanes), static_cast<std::uint8_t>(agent), kInFlight,
                       site_index(lane, site)};
  for (std::uint32_t at = to; at < to + bytes; at += kGranule) {
    visit_parts(at, kGranule, [&](std::size_t record, std::uint32_t address) {
      check_overwrite(record, lane, address, true, site);
    });
    writes_[at / kGranule] = write;
  }
  std::memset(data_ + to, 0xff, bytes);
}

void SharedMemory::land_copy(std::uint32_t to, std::uint32_t bytes, const void* from) {
  std::memcpy(data_ + to, from, bytes);
  for (std::uint32_t at = to; at < to + bytes; at += kGranule)
    if (writes_[at / kGranule].state == kInFlight) writes_[at / kGranule].state = kInitialised;
}

}  // namespace mlacheck::emulator
