#include "tools/call_deadline.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "cuda/plugin/call_stop.h"

namespace mlacheck {

CallDeadline::CallDeadline(double seconds) {
  if (!std::isfinite(seconds)) return;
  thread_ = std::jthread([this, seconds](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    never.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
    if (stop.stop_requested()) return;
    has_passed_ = true;
    stop_calls();
  });
}

}  // namespace mlacheck
