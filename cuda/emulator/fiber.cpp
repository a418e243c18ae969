#include "cuda/emulator/fiber.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <utility>

namespace mlacheck::emulator {
namespace {

constexpr unsigned char kCanary[64] = {0x5a, 0xfe, 0x57, 0xac, 0x0f, 0xfe, 0xe0};

// Boost.Context's view of a stack that belongs to a pool.
struct PooledStack {
  void* top;
  std::size_t bytes;

  boost::context::stack_context allocate() {
    boost::context::stack_context context;
    context.sp = top;
    context.size = bytes;
    return context;
  }
  void deallocate(boost::context::stack_context&) {}
};

// What AddressSanitizer noted of frames that never returned would stay with the addresses, whoever
// gets them next.
void forget_frames([[maybe_unused]] const std::byte* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(MLACHECK_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace

StackPool::StackPool(std::size_t stacks, std::size_t bytes) : stacks_(stacks), bytes_(bytes) {
  void* memory = mmap(nullptr, stacks * bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
}

StackPool::~StackPool() {
  forget_frames(memory_, stacks_ * bytes_);
  munmap(memory_, stacks_ * bytes_);
}

void StackPool::prepare(Fiber& fiber, std::size_t i, std::function<void()> body) {
  std::memcpy(bottom(i), kCanary, sizeof kCanary);
  // Frames of all threads at the same place of their page would share cache sets. The gap also
  // spares this thread's frames when the one above overflows a little.
  const std::size_t offset = 1024 + i % 32 * 192;
  fiber.stack = bottom(i);
  fiber.stack_bytes = bytes_;
  fiber.handle = boost::context::fiber(
      std::allocator_arg, PooledStack{bottom(i) + bytes_ - offset, bytes_ - offset},
      [&fiber, run = std::move(body)](boost::context::fiber&& left) {
#if defined(MLACHECK_ADDRESS_SANITIZER)
        __sanitizer_finish_switch_fiber(nullptr, &fiber.came_from->stack,
                                        &fiber.came_from->stack_bytes);
#endif
        fiber.came_from->handle = std::move(left);
        run();
        Fiber& back = *fiber.came_from;
        back.came_from = &fiber;
#if defined(MLACHECK_ADDRESS_SANITIZER)
        __sanitizer_start_switch_fiber(nullptr, back.stack, back.stack_bytes);
#endif
        return std::move(back.handle);
      });
}

bool StackPool::intact(std::size_t i) const {
  return std::memcmp(bottom(i), kCanary, sizeof kCanary) == 0;
}

}  // namespace mlacheck::emulator
