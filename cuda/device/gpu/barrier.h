#pragma once

namespace mlacheck::device {

__device__ __forceinline__ void sync_block() { __syncthreads(); }

template <unsigned Id>
__device__ __forceinline__ void sync_named(unsigned threads) {
  static_assert(Id >= 1 && Id <= 15, "barrier 0 is sync_block's");
  asm volatile("bar.sync %0, %1;" ::"n"(Id), "r"(threads) : "memory");
}

__device__ __forceinline__ void initialise(SharedPointer<Barrier> barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.address), "r"(arrivals)
               : "memory");
}

__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(SharedPointer<Barrier> barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier.address) : "memory");
}

__device__ __forceinline__ void arrive_expecting(SharedPointer<Barrier> barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier.address),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void wait(SharedPointer<Barrier> barrier, unsigned parity) {
  unsigned complete;
  do {
    asm volatile(
        "{ .reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(complete)
        : "r"(barrier.address), "r"(parity)
        : "memory");
  } while (complete == 0);
}

struct Look {
  unsigned complete;
};
__device__ __forceinline__ Look look(SharedPointer<Barrier> barrier, unsigned parity) {
  Look look;
  asm volatile(
      "{ .reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(look.complete)
      : "r"(barrier.address), "r"(parity)
      : "memory");
  return look;
}
__device__ __forceinline__ void wait(const Look& look, SharedPointer<Barrier> barrier,
                                     unsigned parity) {
  if (look.complete == 0) wait(barrier, parity);
}

__device__ __forceinline__ void copy_bulk(SharedPointer<std::byte> to, const void* from,
                                          unsigned bytes, SharedPointer<Barrier> barrier) {
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          to.address),
      "l"(from), "r"(bytes), "r"(barrier.address)
      : "memory");
}

__device__ __forceinline__ void copy_bulk_once(SharedPointer<std::byte> to, const void* from,
                                               unsigned bytes, SharedPointer<Barrier> barrier) {
  asm volatile(
      "{ .reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], policy; }" ::"r"(to.address),
      "l"(from), "r"(bytes), "r"(barrier.address)
      : "memory");
}

}  // namespace mlacheck::device
