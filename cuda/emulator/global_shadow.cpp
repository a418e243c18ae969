#include "cuda/emulator/global_shadow.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/emulator/block.h"

namespace mlacheck::emulator {
namespace {

constexpr std::uintptr_t kWordBytes = 4;

// The bytes of the word at `address` that a range covers.
std::uint8_t bytes_of(std::uintptr_t address, Interval range) {
  std::uint8_t bytes = 0;
  for (std::uintptr_t i = 0; i < kWordBytes; ++i)
    if (range.begin <= address + i && address + i < range.end)
      bytes = static_cast<std::uint8_t>(bytes | 1u << i);
  return bytes;
}

}  // namespace

void GlobalShadow::reset() {
  page_of_.clear();
  last_number_ = 0;
  others_.clear();
}

GlobalShadow::Word& GlobalShadow::word_at(std::uintptr_t address) {
  const std::uintptr_t number = address / (kPageWords * kWordBytes);
  if (number != last_number_) {
    const auto [it, is_new] = page_of_.try_emplace(number, page_of_.size());
    if (it->second == pages_.size()) pages_.push_back(std::make_unique<Page>());
    last_ = pages_[it->second].get();
    last_number_ = number;
    if (is_new) *last_ = {};
  }
  return (*last_)[address / kWordBytes % kPageWords];
}

void GlobalShadow::check(Lane& lane, std::uintptr_t address, const Epoch& earlier, bool wrote,
                         std::uint8_t bytes, const Site& site) const {
  if ((earlier.bytes & bytes) == 0 || lane.sees(earlier.warp, earlier.stamp)) return;
  report_global(
      lane, ReportKind::data_race, address, site,
      fmt::format("{} by warp {} {} at {}, and nothing orders the two", wrote ? "written" : "read",
                  earlier.warp, lane_name(earlier.stamp), site_name(lane, earlier.site)));
}

void GlobalShadow::keep(std::uintptr_t address, const Epoch& epoch, bool write) {
  const auto [first, last] = others_.equal_range(address);
  const auto it = std::find_if(first, last, [&](const auto& entry) {
    const Other& other = entry.second;
    return other.write == write && other.epoch.warp == epoch.warp &&
           other.epoch.bytes == epoch.bytes;
  });
  if (it == last) {
    others_.emplace(address, Other{epoch, write});
    return;
  }
  Epoch& kept = it->second.epoch;
  const bool one_lane = kept.stamp.lane() == epoch.stamp.lane();
  kept.stamp = Stamp::of(std::max(kept.stamp.time(), epoch.stamp.time()),
                         one_lane ? epoch.stamp.lane() : kSeveralLanes);
  kept.site = epoch.site;
}

void GlobalShadow::note(Lane& lane, Interval range, bool write, const Site& site) {
  const auto warp = static_cast<std::uint8_t>(lane.warp->index);
  const std::uint16_t at = site_index(lane, site);
  for (std::uintptr_t address = range.begin / kWordBytes * kWordBytes; address < range.end;
       address += kWordBytes) {
    const std::uint8_t bytes = bytes_of(address, range);
    Word& word = word_at(address);
    check(lane, address, word.write, true, bytes, site);
    if (write) check(lane, address, word.read, false, bytes, site);
    if (!others_.empty()) {
      const auto [first, last] = others_.equal_range(address);
      for (auto it = first; it != last; ++it)
        if (it->second.write || write)
          check(lane, address, it->second.epoch, it->second.write, bytes, site);
    }
    // Of what this access comes after nothing needs to be kept: who comes after it comes after that
    // too.
    Epoch& mine = write ? word.write : word.read;
    const bool covers = (mine.bytes & ~bytes) == 0;
    const bool joins = !write && covers && mine.bytes != 0 && mine.warp == warp;
    if (mine.bytes != 0 && !joins && !(covers && lane.sees(mine.warp, mine.stamp)))
      keep(address, mine, write);
    mine = {joins ? noted(mine.stamp, lane, false) : Stamp::of(lane.warp->time, lane.index), at,
            warp, bytes};
  }
}

}  // namespace mlacheck::emulator
