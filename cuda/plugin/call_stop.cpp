#include "cuda/plugin/call_stop.h"

#include <atomic>

namespace mlacheck {

namespace {

std::atomic<bool> stopped = false;
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

void stop_calls() { stopped = true; }
void resume_calls() { stopped = false; }
bool calls_stopped() { return stopped; }

}  // namespace mlacheck
