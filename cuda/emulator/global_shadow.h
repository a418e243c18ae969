#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cuda/emulator/interval_set.h"
#include "cuda/emulator/site.h"
#include "cuda/emulator/vector_clock.h"

namespace mlacheck::emulator {

struct Lane;

// Which threads of a block wrote and read memory that kernels write: two accesses to a byte, one of
// them a write, that nothing orders are a data race. What blocks do to one another is found when a
// launch ends (global_memory.h).
class GlobalShadow {
 public:
  void reset();
  // Reports a race with what was noted before.
  void note(Lane& lane, Interval range, bool write, const Site& site);

 private:
  // The last access of some of a word's bytes.
  struct Epoch {
    Stamp stamp;
    std::uint16_t site = 0;
    std::uint8_t warp = 0;
    std::uint8_t bytes = 0;  // a bit each; 0: none
  };
  struct Word {
    Epoch write;
    Epoch read;
  };
  // Where one epoch is not enough: several warps read a word, or lanes wrote parts of it.
  struct Other {
    Epoch epoch;
    bool write;
  };
  static constexpr std::size_t kPageWords = 256;
  using Page = std::array<Word, kPageWords>;

  Word& word_at(std::uintptr_t address);
  void keep(std::uintptr_t address, const Epoch& epoch, bool write);
  void check(Lane& lane, std::uintptr_t address, const Epoch& earlier, bool wrote,
             std::uint8_t bytes, const Site& site) const;

  std::unordered_map<std::uintptr_t, std::size_t> page_of_;  // number of the page -> place
  std::vector<std::unique_ptr<Page>> pages_;                 // the first page_of_.size() are in use
  std::uintptr_t last_number_ = 0;                           // 0: none
  Page* last_ = nullptr;
  std::unordered_multimap<std::uintptr_t, Other> others_;
};

}  // namespace mlacheck::emulator
