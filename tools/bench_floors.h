#pragma once

#include <map>
#include <string>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/recipe.h"
#include "tools/bench_attention.h"

namespace mlacheck {

// What this machine does at best, measured in the run that it is quoted in: kernels that only fetch
// rows, or only multiply (cuda/kernels/floors), timed as others are.
struct MachineRates {
  double bytes_per_second = 0;  // rows of the recipe's cache, at random, into shared memory
  double flops_per_second = 0;  // mma.sync on the type of q
};

// The time that no kernel can be below.
struct Floor {
  double seconds = 0;
  const char* bound = "";  // "rows" or "mma": what takes so long
};
Floor floor_of(const CallWork& work, const MachineRates& rates);

class RateMeter {
 public:
  explicit RateMeter(KernelLibrary floors) : floors_(std::move(floors)) {}

  // For a cache like the recipe's; measured once for each. `refusal` where there is no floor for it.
  struct Answer {
    MachineRates rates;
    std::string refusal;
  };
  // Throws std::runtime_error with what went wrong.
  const Answer& rates(const SparseAttentionRecipe& recipe);

 private:
  double seconds_of(const SparseAttentionCase& attention, const char* kernel, Answer& answer);

  KernelLibrary floors_;
  std::map<std::string, Answer> measured_;  // by recipe
};

}  // namespace mlacheck
