#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cuda/plugin/device_memory.h"
#include "cuda/plugin/kernel_timing.h"
#include "reference/verdict/verdict.h"
#include "tools/bench_floors.h"
#include "tools/report.h"

namespace mlacheck {

// One kernel on one size of a recipe.
struct BenchResult {
  std::string kernel;  // "libmine.so:mine"
  std::string repro;   // command that checks it
  TimedCalls timed;
  Status status = Status::pass;
  std::string detail;  // why, where it is no PASS
  KernelTimes times;
  std::int64_t workspace_bytes = 0;
  CallWork work;
  std::int64_t judged = 0;  // elements of the outputs that the oracle has seen
  std::optional<Floor> floor;
};

// A table as results come, and JSON at the end.
class BenchReport {
 public:
  // Throws as finish() does where the file could not be written, before there is anything to write.
  BenchReport(GpuInfo gpu, std::optional<std::filesystem::path> json);

  // Results that follow are of this recipe, whose floor comes from these rates.
  void begin(const std::string& recipe, const RateMeter::Answer& rates);
  void add(const BenchResult& result);
  // What is of no recipe: how libraries ended.
  void add_end(CheckResult end);

  // Writes the file. Returns the exit code. Throws Hdf5Error or
  // std::system_error naming the file that cannot be written.
  int finish() const;

 private:
  struct Group {
    std::string recipe;
    RateMeter::Answer rates;
    std::vector<BenchResult> results;
  };
  GpuInfo gpu_;
  std::optional<std::filesystem::path> json_;
  std::vector<Group> groups_;
  std::vector<CheckResult> ends_;
};

}  // namespace mlacheck
