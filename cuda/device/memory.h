#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/device/platform.h"

namespace mlacheck::device {

// Values that one instruction moves.
struct alignas(8) Words2 {
  std::uint32_t word[2];
};
struct alignas(16) Words4 {
  std::uint32_t word[4];
};
struct alignas(16) Floats4 {
  float value[4];
};
template <class T>
inline constexpr bool kIsAccessible = std::is_trivially_copyable_v<T> &&
                                      (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 ||
                                       sizeof(T) == 8 || sizeof(T) == 16);

// An address in the block's shared memory: 32 bits. Arithmetic is in elements of T.
template <class T>
struct SharedPointer {
  std::uint32_t address;

  MLACHECK_DEVICE_FN SharedPointer operator+(std::int32_t elements) const {
    return {address + static_cast<std::uint32_t>(elements) * std::uint32_t{sizeof(T)}};
  }
  MLACHECK_DEVICE_FN SharedPointer operator+(std::uint32_t elements) const {
    return {address + elements * std::uint32_t{sizeof(T)}};
  }
  template <class U>
  MLACHECK_DEVICE_FN SharedPointer<U> as() const {
    return {address};
  }
};

// The block's dynamic shared memory as one struct: the kernel's layout. Only addresses may be taken
// of it. 128-byte aligned. Its content is undefined when the block starts.
template <class Layout>
MLACHECK_DEVICE_FN Layout& shared_memory();
// The shared address of something within it.
template <class T>
MLACHECK_DEVICE_FN SharedPointer<T> shared(T& object);

template <class T>
MLACHECK_DEVICE_FN T load(SharedPointer<T> from MLACHECK_SITE);
template <class T>
MLACHECK_DEVICE_FN void store(SharedPointer<T> to, std::type_identity_t<T> value MLACHECK_SITE);

// Global memory that nobody writes while the kernel runs: through the read-only path. What the
// kernel before may have written is none, where this one starts early: the compiler puts such a
// load before the wait. Unless the address comes of a load that stands after it.
template <class T>
MLACHECK_DEVICE_FN T load_constant(const T* from MLACHECK_SITE);
// The same of 16 bytes, where those around them are soon to be read too: all 128 of their line come
// to the L2 cache.
template <class T>
MLACHECK_DEVICE_FN T load_constant_first(const T* from MLACHECK_SITE);
// Any global memory: what this thread, or a kernel before this one, has written.
template <class T>
MLACHECK_DEVICE_FN T load(const T* from MLACHECK_SITE);
template <class T>
MLACHECK_DEVICE_FN void store(T* to, std::type_identity_t<T> value MLACHECK_SITE);

// Sends for `bytes` of global memory (a multiple of 16, as the address), so that they are in the L2
// cache when they are read. Nothing is read: it may come before wait_for_previous_kernel, of what
// the kernel before still writes too, since it writes to that cache.
MLACHECK_DEVICE_FN void prefetch(const void* from, unsigned bytes MLACHECK_SITE);

// kZeroBytes of zeros in global memory, 16-byte aligned: what is copied for a row that is absent.
inline constexpr unsigned kZeroBytes = 2048;
MLACHECK_DEVICE_FN const std::byte* zeros();

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/memory.h"
#else
#include "cuda/device/emulated/memory.h"
#endif
