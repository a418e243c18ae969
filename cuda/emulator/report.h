#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mlacheck::emulator {

enum class ReportKind {
  data_race,           // two accesses, one of them a write, that nothing orders
  missing_wait,        // the target of a copy is touched before its barrier was waited for, or a
                       // copy overwrites what somebody may still read
  uninitialised_read,  // of memory or an accumulator that nobody has written
  out_of_bounds,
  misaligned,
  read_only,        // a write to memory declared for reading
  early_access,     // before wait_for_previous_kernel
  divergence,       // lanes of a warp at different collectives
  barrier_misuse,   // surplus arrivals, wrong counts, use before initialisation, too many bytes
  register_misuse,  // taking fewer than there are, giving more, waiting for ever
  deadlock,
  stack_overflow,  // of the thread's fiber, on the host
};

std::string_view name_of(ReportKind kind);

enum class Space { none, shared, global };

// What a kernel did wrong, for the first time at this place; `count` says how often in this block.
struct Report {
  ReportKind kind = ReportKind::data_race;
  std::string kernel;
  std::uint32_t block = 0;
  std::uint32_t block_y = 0;
  std::uint32_t thread = 0;  // of the block: warp thread / 32, lane thread % 32
  Space space = Space::none;
  std::string region;        // of global memory, as declared; empty when none is near
  std::uint64_t offset = 0;  // in shared memory, or in the region
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string message;
  std::uint64_t count = 1;

  // One line: all of the above.
  std::string text() const;
};

}  // namespace mlacheck::emulator
