#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/emulator/site.h"
#include "cuda/emulator/vector_clock.h"

namespace mlacheck::emulator {

struct Lane;

// A block's shared memory and its shadow: who wrote and who read last. One record stands for 16
// aligned bytes until a smaller access splits it, into words or into bytes; a write of all 16 joins
// it again.
class SharedMemory {
 public:
  // Undefined content: 0xff bytes.
  void reset(std::uint32_t bytes, int warps);

  std::byte* data() { return data_; }
  std::uint32_t size() const { return size_; }

  // Checks an access of 1, 2, 4, 8 or 16 bytes and notes it. False when it must not be made: it is
  // out of bounds or misaligned.
  bool read(Lane& lane, std::uint32_t address, std::uint32_t bytes, const Site& site);
  bool write(Lane& lane, std::uint32_t address, std::uint32_t bytes, const Site& site);
  // The same for an atomic read-modify-write of a word.
  bool update(Lane& lane, std::uint32_t address, const Site& site);
  // 16 bytes read for all lanes of the warp; `lane` gave the address.
  bool read_row(Lane& lane, std::uint32_t address, const Site& site);

  // A copy overwrites a range, 16-byte aligned; until it lands, the range is poisoned. It becomes
  // visible with `time` of `agent`.
  void begin_copy(Lane& lane, std::uint32_t to, std::uint32_t bytes, int agent, std::int32_t time,
                  const Site& site);
  void land_copy(std::uint32_t to, std::uint32_t bytes, const void* from);

 private:
  enum State : std::uint8_t {
    kInitialised = 1,
    kInFlight = 2,
    kWords = 4,
    kBytes = 8,
    kAtomic = 16
  };
  struct Write {
    Stamp stamp;
    std::uint8_t agent = 0;
    std::uint8_t state = 0;
    std::uint16_t site = 0;
  };

  bool allowed(Lane& lane, std::uint32_t address, std::uint32_t bytes, const Site& site,
               const char* what);
  // Calls visit(record, address of its first byte) for the records of a range within 16 bytes.
  template <class Visit>
  void visit_parts(std::uint32_t address, std::uint32_t bytes, Visit visit);
  void split(std::uint32_t granule, State into);
  // Whether what was written last, by a store or by atomics, happened before.
  bool sees_write(std::size_t record, const Lane& lane, bool whole_warp) const;
  // Reports a reader whom an access that changes the record does not wait for.
  void check_readers(std::size_t record, Lane& lane, std::uint32_t address, bool copies,
                     const Site& site);
  void note_read(std::size_t record, Lane& lane, bool whole_warp, std::uint32_t address,
                 const Site& site);
  // Reports a writer or a reader whom an overwriting store or copy does not wait for.
  void check_overwrite(std::size_t record, Lane& lane, std::uint32_t address, bool copies,
                       const Site& site);
  void report_read(const Write& write, Lane& lane, std::uint32_t address, const Site& site);

  std::uint32_t size_ = 0;
  int warps_ = 0;
  std::vector<std::byte> bytes_;
  std::byte* data_ = nullptr;  // 128-byte aligned, in bytes_
  // By record: one for each 16 bytes, then 16 for each that is split.
  std::vector<Write> writes_;
  std::vector<Stamp> reads_;          // [record][warp]
  std::vector<Stamp> atomics_;        // the same, since the last store; empty until there is one
  std::vector<std::uint32_t> parts_;  // [granule]: its first part's record, once split
};

}  // namespace mlacheck::emulator
