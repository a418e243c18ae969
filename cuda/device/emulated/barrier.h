#pragma once

#include "cuda/emulator/primitives.h"

namespace mlacheck::device {

inline void sync_block(emulator::Site site) { emulator::sync_block(site); }

template <unsigned Id>
inline void sync_named(unsigned threads, emulator::Site site) {
  static_assert(Id >= 1 && Id <= 15, "barrier 0 is sync_block's");
  emulator::sync_named(Id, threads, site);
}

inline void initialise(SharedPointer<Barrier> barrier, unsigned arrivals, emulator::Site site) {
  emulator::initialise(barrier.address, arrivals, site);
}
inline void publish_barriers(emulator::Site site) { emulator::publish_barriers(site); }

inline void arrive(SharedPointer<Barrier> barrier, emulator::Site site) {
  emulator::arrive(barrier.address, site);
}
inline void arrive_expecting(SharedPointer<Barrier> barrier, unsigned bytes, emulator::Site site) {
  emulator::arrive_expecting(barrier.address, bytes, site);
}
inline void wait(SharedPointer<Barrier> barrier, unsigned parity, emulator::Site site) {
  emulator::wait(barrier.address, parity, site);
}

struct Look {};
inline Look look(SharedPointer<Barrier> /*barrier*/, unsigned /*parity*/) { return {}; }
inline void wait(const Look& /*look*/, SharedPointer<Barrier> barrier, unsigned parity,
                 emulator::Site site) {
  wait(barrier, parity, site);
}

inline void copy_bulk(SharedPointer<std::byte> to, const void* from, unsigned bytes,
                      SharedPointer<Barrier> barrier, emulator::Site site) {
  emulator::copy_bulk(to.address, from, bytes, barrier.address, site);
}

inline void copy_bulk_once(SharedPointer<std::byte> to, const void* from, unsigned bytes,
                           SharedPointer<Barrier> barrier, emulator::Site site) {
  copy_bulk(to, from, bytes, barrier, site);
}

}  // namespace mlacheck::device
