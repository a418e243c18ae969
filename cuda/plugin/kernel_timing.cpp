#include "cuda/plugin/kernel_timing.h"

#include <algorithm>
#include <vector>

#include "cuda/plugin/gpu_driver.h"

namespace mlacheck {

namespace {

using gpu::require;

constexpr std::int32_t kWarmUp = 3, kSingleCalls = 21;  // launches; their median counts
constexpr std::int32_t kGraphWarmUp = 2, kGraphs = 11;  // of the graph
constexpr double kGraphSeconds = 2e-3;                  // about so long, as far as kMostCalls allow
constexpr std::int32_t kFewestCalls = 4, kMostCalls = 256;  // in a graph

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A stream with two events. Nothing is released: a worker process times once and ends.
class TimedStream {
 public:
  TimedStream() {
    gpu::current_driver();  // its context
    constexpr unsigned kNonBlocking = 1;
    require(driver_.stream_create(&stream_, kNonBlocking), "cuStreamCreate");
    require(driver_.event_create(&begin_, 0), "cuEventCreate");
    require(driver_.event_create(&end_, 0), "cuEventCreate");
  }

  // Seconds between the two events around what `start` puts on the stream.
  template <class F>
  double time(F start) {
    require(driver_.event_record(begin_, stream_), "cuEventRecord");
    start(stream_);
    require(driver_.event_record(end_, stream_), "cuEventRecord");
    require(driver_.stream_synchronise(stream_), "the kernel");
    float milliseconds = 0;
    require(driver_.event_elapsed(&milliseconds, begin_, end_), "cuEventElapsedTime");
    return double{milliseconds} * 1e-3;
  }

  template <class F>
  gpu::Executable capture(F start) {
    constexpr int kThreadLocal = 1;
    gpu::Graph graph = nullptr;
    gpu::Executable executable = nullptr;
    require(driver_.begin_capture(stream_, kThreadLocal), "cuStreamBeginCapture");
    start(stream_);
    require(driver_.end_capture(stream_, &graph), "its calls cannot be captured in a graph");
    require(driver_.instantiate(&executable, graph, 0), "cuGraphInstantiate");
    return executable;
  }

  double time_graph(gpu::Executable graph) {
    return time(
        [&](gpu::Stream stream) { require(driver_.launch(graph, stream), "cuGraphLaunch"); });
  }

 private:
  const gpu::TimingDriver driver_ = gpu::timing_driver();
  gpu::Stream stream_ = nullptr;
  gpu::Event begin_ = nullptr, end_ = nullptr;
};

}  // namespace

KernelTimes time_calls(std::int32_t calls, const std::function<void(std::int32_t, void*)>& start,
                       const std::function<void()>& prepare) {
  TimedStream stream;
  KernelTimes times;
  std::vector<double> seconds;
  for (std::int32_t i = 0; i < kWarmUp + kSingleCalls; ++i) {
    const double taken = stream.time([&](void* handle) { start(i % calls, handle); });
    if (i >= kWarmUp) seconds.push_back(taken);
  }
  times.single = median(seconds);

  // Every call once, and as often as it takes to fill the time.
  const std::int32_t wanted = static_cast<std::int32_t>(
      std::clamp<double>(kGraphSeconds / times.single, kFewestCalls, kMostCalls));
  times.graph_calls = (std::max(wanted, calls) + calls - 1) / calls * calls;
  const gpu::Executable graph = stream.capture([&](void* handle) {
    for (std::int32_t i = 0; i < times.graph_calls; ++i) start(i % calls, handle);
  });
  seconds.clear();
  for (std::int32_t i = 0; i < kGraphWarmUp + kGraphs; ++i) {
    const double taken = stream.time_graph(graph);
    if (i >= kGraphWarmUp) seconds.push_back(taken);
  }
  times.in_graph = median(seconds) / times.graph_calls;
  prepare();
  stream.time_graph(graph);
  return times;
}

}  // namespace mlacheck
