#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

#if defined(__SANITIZE_ADDRESS__)
#define MLACHECK_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MLACHECK_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(MLACHECK_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace mlacheck::emulator {

// A stack and where on it to go on. The default one stands for the host thread's own.
struct Fiber {
  boost::context::fiber handle;
  Fiber* came_from = nullptr;  // who switched here last
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
};

// Goes on in `to`; returns when somebody switches back to `from`, the running fiber.
inline void switch_fiber(Fiber& from, Fiber& to) {
  to.came_from = &from;
#if defined(MLACHECK_ADDRESS_SANITIZER)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.stack, to.stack_bytes);
#endif
  boost::context::fiber left = std::move(to.handle).resume();
#if defined(MLACHECK_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_stack, &from.came_from->stack, &from.came_from->stack_bytes);
#endif
  from.came_from->handle = std::move(left);
}

// Stacks for fibers, kept for the next blocks; each ends in a canary.
class StackPool {
 public:
  StackPool(std::size_t stacks, std::size_t bytes);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // Starts `body` on stack i at the first switch to the fiber. Where it returns, it goes on in the
  // fiber that switched to it last.
  void prepare(Fiber& fiber, std::size_t i, std::function<void()> body);
  // False once the thread on stack i has used all of it.
  bool intact(std::size_t i) const;

 private:
  std::byte* bottom(std::size_t i) const { return memory_ + i * bytes_; }

  std::size_t stacks_;
  std::size_t bytes_;
  std::byte* memory_;
};

}  // namespace mlacheck::emulator
