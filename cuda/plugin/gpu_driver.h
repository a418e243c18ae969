#pragma once

#include <cstddef>
#include <optional>

namespace mlacheck::gpu {

// The driver's interface, as far as it is used here. Its ABI is stable; the names are those that
// cuda.h maps its functions to.
using Result = int;  // CUresult, 0: success
using Address = unsigned long long;
using Stream = void*;
using Event = void*;
using Graph = void*;
using Executable = void*;  // a graph, made ready

struct Driver {
  Result (*init)(unsigned);
  Result (*driver_version)(int*);
  Result (*device_count)(int*);
  Result (*device_name)(char*, int, int);
  Result (*device_attribute)(int*, int, int);
  Result (*retain_primary)(void**, int);
  Result (*set_current)(void*);
  Result (*allocate)(Address*, std::size_t);
  Result (*release)(Address);
  Result (*fill)(Address, unsigned char, std::size_t);
  Result (*to_device)(Address, const void*, std::size_t);
  Result (*to_host)(void*, Address, std::size_t);
  Result (*synchronise)();
  Result (*error_string)(Result, const char**);
};

// What only timing needs.
struct TimingDriver {
  Result (*stream_create)(Stream*, unsigned);
  Result (*stream_synchronise)(Stream);
  Result (*begin_capture)(Stream, int);
  Result (*end_capture)(Stream, Graph*);
  Result (*instantiate)(Executable*, Graph, unsigned long long);
  Result (*launch)(Executable, Stream);
  Result (*event_create)(Event*, unsigned);
  Result (*event_record)(Event, Stream);
  Result (*event_elapsed)(float*, Event, Event);
};

// The driver, loaded once; nothing where there is none, or no GPU.
const std::optional<Driver>& driver();
// With the first GPU's primary context as this thread's. Throws std::runtime_error with the
// driver's words, or where there is no GPU.
const Driver& current_driver();
// Throws std::runtime_error naming what the driver lacks.
TimingDriver timing_driver();
// Throws std::runtime_error with the driver's words unless the result is success.
void require(Result result, const char* what);

}  // namespace mlacheck::gpu
