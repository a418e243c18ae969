#pragma once

#include "cuda/emulator/primitives.h"

namespace mlacheck::device {

template <class Layout>
inline Layout& shared_memory() {
  static_assert(sizeof(Layout) <= kSharedMemoryLimit);
  static_assert(alignof(Layout) <= 128);
  emulator::require_shared(sizeof(Layout));
  return *reinterpret_cast<Layout*>(emulator::shared_base());
}

template <class T>
inline SharedPointer<T> shared(T& object) {
  const auto* address = reinterpret_cast<const std::byte*>(&object);
  return {static_cast<std::uint32_t>(address - emulator::shared_base())};
}

template <class T>
inline T load(SharedPointer<T> from, emulator::Site site) {
  static_assert(kIsAccessible<T>);
  T value;
  emulator::read_shared(from.address, &value, sizeof value, site);
  return value;
}

template <class T>
inline void store(SharedPointer<T> to, std::type_identity_t<T> value, emulator::Site site) {
  static_assert(kIsAccessible<T>);
  emulator::write_shared(to.address, &value, sizeof value, site);
}

template <class T>
inline T load(const T* from, emulator::Site site) {
  static_assert(kIsAccessible<T>);
  T value;
  emulator::read_global(from, &value, sizeof value, site);
  return value;
}

template <class T>
inline T load_constant(const T* from, emulator::Site site) {
  return load(from, site);
}

template <class T>
inline T load_constant_first(const T* from, emulator::Site site) {
  static_assert(sizeof(T) == 16);
  return load(from, site);
}

template <class T>
inline void store(T* to, std::type_identity_t<T> value, emulator::Site site) {
  static_assert(kIsAccessible<T>);
  emulator::write_global(to, &value, sizeof value, site);
}

inline void prefetch(const void* from, unsigned bytes, emulator::Site site) {
  emulator::prefetch(from, bytes, site);
}

inline const std::byte* zeros() {
  static_assert(kZeroBytes == emulator::kMostZeros);
  return emulator::zeros();
}

}  // namespace mlacheck::device
