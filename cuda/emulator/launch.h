#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emulator/global_memory.h"
#include "cuda/emulator/mutation.h"

namespace mlacheck::emulator {

class CallSiteLog;

// A grid of blocks that all run body(arguments).
struct Launch {
  std::string name;
  std::uint32_t blocks = 1;
  std::uint32_t blocks_y = 1;
  std::uint32_t threads = 32;
  std::uint32_t shared_bytes = 0;
  bool early = false;  // it may start before the launches before it have ended
  void (*body)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
  std::uint64_t seed = 0;
  const GlobalMemory* memory = nullptr;
  const std::vector<Mutation>* mutations = nullptr;
  CallSiteLog* call_sites = nullptr;  // null: not asked for
};

}  // namespace mlacheck::emulator
