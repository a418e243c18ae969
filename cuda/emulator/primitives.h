#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda/emulator/group.h"
#include "cuda/emulator/matrix_unit_inline.h"

// What the emulated bodies of the device layer (cuda/device/emulated) call, each for the running
// thread. What they promise is said in cuda/device.
namespace mlacheck::emulator {

// Memory. Data of accesses that must not be made reads as 0xff bytes, and is not written.
void require_shared(std::size_t layout_bytes);
inline std::byte* shared_base() { return current_lane->warp->block->shared.data(); }
void read_shared(std::uint32_t from, void* to, std::uint32_t bytes, const Site& site);
void write_shared(std::uint32_t to, const void* from, std::uint32_t bytes, const Site& site);
// Lets an atomic read-modify-write of the word begin; false when it must not be made.
bool begin_atomic(std::uint32_t at, const Site& site);
// Makes one, and gives what was there before.
template <class Update>
std::uint32_t update_shared(std::uint32_t at, Update update, const Site& site) {
  std::uint32_t old = ~std::uint32_t{0};
  if (!begin_atomic(at, site)) return old;
  std::byte* word = shared_base() + at;
  std::memcpy(&old, word, sizeof old);
  const std::uint32_t updated = update(old);
  std::memcpy(word, &updated, sizeof updated);
  return old;
}
void read_global(const void* from, void* to, std::uint32_t bytes, const Site& site);
void write_global(void* to, const void* from, std::uint32_t bytes, const Site& site);
void prefetch(const void* from, std::uint32_t bytes, const Site& site);
inline constexpr std::size_t kMostZeros = 2048;
const std::byte* zeros();

// Warp collectives. pass is one that waits for nobody: that all lanes came to it the next one
// finds.
inline void pass(const Site& site) {
  Lane& lane = *current_lane;
  lane.passed = lane.passed * 31 + site.id();
  lane.passed_last = site;
}
void sync_warp(const Site& site);
std::uint32_t shuffle(std::uint32_t value, std::uint32_t from_lane, const Site& site);
std::uint32_t ballot(bool condition, const Site& site);
void change_registers(std::uint32_t registers, bool takes, const Site& site);

// Barriers and copies. Number 0 is the block's barrier, for all its threads.
void sync_block(const Site& site);
void sync_named(std::uint32_t number, std::uint32_t threads, const Site& site);
void initialise(std::uint32_t barrier, std::uint32_t arrivals, const Site& site);
void publish_barriers(const Site& site);
void arrive(std::uint32_t barrier, const Site& site);
void arrive_expecting(std::uint32_t barrier, std::uint32_t bytes, const Site& site);
void wait(std::uint32_t barrier, std::uint32_t parity, const Site& site);
void copy_bulk(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier,
               const Site& site);
void wait_for_previous_kernel(const Site& site);

// Matrix registers: each lane names them in the same order. Ends the block when there are too many.
[[noreturn]] void report_registers(std::uint32_t most, const char* what);
inline void require_registers(std::uint32_t alive, std::uint32_t most, const char* what) {
  if (alive > most) [[unlikely]]
    report_registers(most, what);
}

}  // namespace mlacheck::emulator
