#pragma once

#include <cstdint>
#include <functional>

namespace mlacheck {

// How long a kernel's call takes on the GPU: medians, in seconds.
struct KernelTimes {
  double in_graph = 0;  // a call of a CUDA graph of `graph_calls` of them, back to back
  double single = 0;    // one call on an idle stream, between two events
  std::int32_t graph_calls = 0;
};

// Times calls that differ in their data alone: start(i, stream) makes call i of `calls`, one after
// another in turn, so that what they read is not in the cache where all of it is larger. `prepare`
// is called before the last launch of the graph, with nothing running: its outputs are those that
// remain. Throws std::runtime_error with the driver's words, where a call cannot be captured too.
KernelTimes time_calls(std::int32_t calls, const std::function<void(std::int32_t, void*)>& start,
                       const std::function<void()>& prepare);

}  // namespace mlacheck
