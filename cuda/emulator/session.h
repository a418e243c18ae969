#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/emulator/global_memory.h"
#include "cuda/emulator/launch.h"
#include "cuda/emulator/mutation.h"
#include "cuda/emulator/report.h"

namespace mlacheck::emulator {

struct SessionOptions {
  // Of the schedule: which block, warp and lane runs when, which copy lands first.
  std::uint64_t seed = 1;
  int host_threads = 0;  // over which blocks are spread; 0: as many as OpenMP would use
  std::uint32_t resident_blocks = 1;  // that run interleaved
  std::size_t stack_bytes = 0;        // of a thread, a multiple of 4096; 0: the default
  std::size_t most_reports = 100;     // that are kept
  std::vector<Mutation> mutations;
  bool list_call_sites = false;
};

// Of the GPU that the emulator stands for: 188, or what MLACHECK_MULTIPROCESSORS says. Throws
// std::runtime_error when that is not a number from 1 to 65,535.
std::uint32_t multiprocessors();

// Kernels that run one after the other on the same memory. What it returns, reports included,
// depends on the options' seed and resident_blocks, not on host_threads.
class Session {
 public:
  explicit Session(SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Memory that kernels may touch, of `bytes` >= 0 from `data` on. Declaring memory again replaces
  // what was said of it before; for writing alone, its content is undefined from then on.
  void declare_memory(const std::string& name, const void* data, std::uint64_t bytes,
                      Access access);

  // Runs the kernel to its end. blocks * blocks_y = 0 runs nothing. Throws std::invalid_argument
  // for a shape that no GPU takes, std::runtime_error with the text of the launch's first report.
  void launch(const Launch& launch);

  // Of all launches: in order of launch and block, at most options.most_reports.
  const std::vector<Report>& reports() const { return reports_; }
  // Where kernels called primitives that a Mutation can change, in order of file and line; empty
  // unless the options asked for it.
  std::vector<CallSite> call_sites() const;

 private:
  SessionOptions options_;
  GlobalMemory memory_;
  std::vector<Report> reports_;
  std::uint64_t launches_ = 0;
  std::unique_ptr<CallSiteLog> call_sites_;
};

}  // namespace mlacheck::emulator
