#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/recipe.h"
#include "tools/report.h"

namespace mlacheck {

class LawTrial;

// What must hold between a kernel's answers to two problems that are alike in a known way. A law
// compares
//
//   bits       where both calls are the same arithmetic on the same numbers, or the kernel promised
//              that the difference has no influence
//   interval   elsewhere: the changed problem's answer is judged by its own bound, which is
//              narrower than a comparison of two answers that may each be off by theirs. The law
//              then is what makes the problem: one that no recipe has.
struct Law {
  std::string_view name;  // "index_order"
  std::string_view says;  // one line
  bool (*applies)(const Recipe& recipe, const mlacheck_kernel& kernel);
  void (*run)(const Recipe& recipe, LawTrial& trial);
};

std::span<const Law> laws();

// Puts the law to the kernel: what every comparison said, PASS where all held. SKIPPED, with the
// reason, where the kernel refuses the changed problem, or the case cannot be changed so. Empty
// where the law does not apply.
std::vector<CheckResult> check_law(const Law& law, const Recipe& recipe,
                                   const KernelLibrary& library, const mlacheck_kernel& kernel);

// All that apply, until one hangs; or the one alone whose result is named so.
std::vector<CheckResult> check_laws(const Recipe& recipe, const KernelLibrary& library,
                                    const mlacheck_kernel& kernel, std::string_view only = "");

}  // namespace mlacheck
