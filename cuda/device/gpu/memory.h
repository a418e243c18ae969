#pragma once

namespace mlacheck::device {

namespace detail {

extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];
__device__ const Words4 kZeros[kZeroBytes / sizeof(Words4)] = {};

// Instructions move 1, 2, 4, 8 or 16 bytes: the unsigned type of that size.
template <std::size_t Bytes>
struct Raw;
template <>
struct Raw<1> {
  using Type = unsigned char;
};
template <>
struct Raw<2> {
  using Type = unsigned short;
};
template <>
struct Raw<4> {
  using Type = unsigned;
};
template <>
struct Raw<8> {
  using Type = uint2;
};
template <>
struct Raw<16> {
  using Type = uint4;
};
template <class T>
using RawOf = typename Raw<sizeof(T)>::Type;

// By value: of memory that a reference names, the compiler copies single bytes.
template <class To, class From>
__device__ __forceinline__ To reinterpret(From from) {
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace detail

template <class Layout>
__device__ __forceinline__ Layout& shared_memory() {
  return *reinterpret_cast<Layout*>(detail::dynamic_shared_memory);
}

template <class T>
__device__ __forceinline__ SharedPointer<T> shared(T& object) {
  return {static_cast<std::uint32_t>(__cvta_generic_to_shared(&object))};
}

template <class T>
__device__ __forceinline__ T load(SharedPointer<T> from) {
  static_assert(kIsAccessible<T>);
  const auto* address =
      static_cast<const detail::RawOf<T>*>(__cvta_shared_to_generic(from.address));
  return detail::reinterpret<T>(*address);
}

template <class T>
__device__ __forceinline__ void store(SharedPointer<T> to, std::type_identity_t<T> value) {
  static_assert(kIsAccessible<T>);
  auto* address = static_cast<detail::RawOf<T>*>(__cvta_shared_to_generic(to.address));
  *address = detail::reinterpret<detail::RawOf<T>>(value);
}

template <class T>
__device__ __forceinline__ T load_constant(const T* from) {
  static_assert(kIsAccessible<T>);
  return detail::reinterpret<T>(__ldg(reinterpret_cast<const detail::RawOf<T>*>(from)));
}

template <class T>
__device__ __forceinline__ T load_constant_first(const T* from) {
  static_assert(sizeof(T) == 16);
  uint4 value;
  asm volatile("ld.global.nc.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return detail::reinterpret<T>(value);
}

template <class T>
__device__ __forceinline__ T load(const T* from) {
  static_assert(kIsAccessible<T>);
  return detail::reinterpret<T>(*reinterpret_cast<const detail::RawOf<T>*>(from));
}

template <class T>
__device__ __forceinline__ void store(T* to, std::type_identity_t<T> value) {
  static_assert(kIsAccessible<T>);
  *reinterpret_cast<detail::RawOf<T>*>(to) = detail::reinterpret<detail::RawOf<T>>(value);
}

__device__ __forceinline__ void prefetch(const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ const std::byte* zeros() {
  return reinterpret_cast<const std::byte*>(detail::kZeros);
}

}  // namespace mlacheck::device
