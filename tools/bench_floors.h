#pragma once

#include <map>
#include <string>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/recipe.h"
#include "tools/bench_case.h"

namespace mlacheck {

// What this machine does at best, measured in the run that it is quoted in, by kernels that only
// read, or only multiply (cuda/kernels/floors), timed as others are.
struct MachineRates {
  double bytes_per_second = 0;  // attention: rows of such a cache, at random, into shared memory;
                                // the indexer's operators: keys from end to end
  double flops_per_second = 0;  // mma.sync on the type of q
};

// The time of the bytes or of the products of a call at these rates, whichever is longer. What
// finds its inputs in the L2 cache can be below it.
struct Floor {
  double seconds = 0;
  const char* bound = "";  // "bytes" or "mma": what takes so long
};
Floor floor_of(const CallWork& work, const MachineRates& rates);

class RateMeter {
 public:
  explicit RateMeter(KernelLibrary floors) : floors_(std::move(floors)) {}

  // For a recipe like this one. `refusal` where there is no floor for it.
  struct Answer {
    MachineRates rates;
    std::string refusal;
  };
  // Throws std::runtime_error with what went wrong.
  Answer rates(const Recipe& recipe);

 private:
  // Of the recipe, by a kernel of the floors; measured once for each.
  struct Measured {
    CallWork work;
    double seconds = 0;
    std::string refusal;
  };
  const Measured& measure(const Recipe& recipe, const char* kernel);

  KernelLibrary floors_;
  std::map<std::string, Measured> measured_;  // by kernel and recipe
};

}  // namespace mlacheck
