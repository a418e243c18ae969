#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emulator/interval_set.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/site.h"

namespace mlacheck::emulator {

struct Block;
struct Lane;
struct Launch;

enum class Access { read, write, read_write };

struct Region {
  std::string name;
  Interval range;
  Access access;
};

// Addresses that a block has read or written, and where it first did.
struct GlobalRun {
  Interval range;
  bool write;
  Site site;
};

// The memory that kernels may touch, and what they have done to it. While a launch runs it does not
// change, so that blocks may run in any order; their logs are added at the end, in order.
class GlobalMemory {
 public:
  // Replaces what the range overlaps of earlier declarations for writing. Memory declared for
  // writing alone is uninitialised from now on.
  void declare(const std::string& name, const void* data, std::uint64_t bytes, Access access);

  // The region that holds the range with that right; null if none does.
  const Region* find(Interval range, bool write) const;
  // A region that holds or precedes the address, for reports; null if none.
  const Region* nearest(std::uintptr_t address) const;
  bool initialised(Interval range) const { return initialised_.contains(range); }
  // Whether an earlier kernel, which an early start does not wait for, has written the range, or,
  // for a write, has read it.
  bool in_use(Interval range, bool write) const {
    return written_.overlaps(range) || (write && read_.overlaps(range));
  }

  // A launch that does not start early comes after all before it.
  void begin_launch(bool early);
  // Adds what each block did, in order; reports what two of them did to the same bytes.
  std::vector<Report> end_launch(const Launch& launch,
                                 const std::vector<std::vector<GlobalRun>>& runs_of_blocks);

 private:
  std::vector<Region> regions_;
  IntervalSet initialised_;
  IntervalSet written_;
  IntervalSet read_;
};

// A block's accesses to memory that some kernel may write.
class GlobalLog {
 public:
  void reset();
  void add(Interval range, bool write, std::uint16_t site);
  // Whether the block itself has written all of the range.
  bool wrote(Interval range);
  // The runs, joined, ascending.
  std::vector<GlobalRun> take(const Block& block);

  const Region* last = nullptr;  // found: the next access is likely there too

 private:
  struct Run {
    Interval range;
    bool write;
    std::uint16_t site;
  };
  void compact();

  std::vector<Run> runs_;
  std::size_t compact_at_ = 0;
};

// Checks an access and notes it. False when it must not be made: nobody declared the memory, for
// that use, or it is misaligned.
bool access_global(Lane& lane, const void* data, std::uint64_t bytes, bool write, const Site& site);
// Checks a prefetch, which is no access: that somebody may read the memory.
void check_prefetch(Lane& lane, const void* data, std::uint64_t bytes, const Site& site);

}  // namespace mlacheck::emulator
