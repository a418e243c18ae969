#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "reference/verdict/heat_map.h"

namespace mlacheck {

// From best to worst, so that the worst of several is their maximum.
enum class Status {
  pass,
  skipped,     // not tried, with the reason
  refused,     // the kernel declined, with its reason
  mistrusted,  // this case could have shown none of the errors asked for
  improbable,  // inside the proven bound, outside the statistical one
  fail,        // outside the proven bound, wrong bits, broken law
  crashed,
};

std::string_view name_of(Status status);  // "PASS", ...

// Whether it speaks against a kernel.
constexpr bool is_wrong(Status status) { return status >= Status::improbable; }

// What a run of these ends with: 0 all pass (some may be skipped or refused), 1 a FAIL or CRASHED,
// 4 nothing worse than MISTRUSTED or IMPROBABLE, 77 nothing ran. (2, usage, and 3, harness or I/O,
// are not verdicts.)
inline constexpr int kExitPass = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitHarness = 3;
inline constexpr int kExitDoubtful = 4;
inline constexpr int kExitSkipped = 77;
int exit_code(std::span<const Status> statuses);

// What the quantile of a finding saturates at.
inline constexpr double kMaxQuantile = 4;

// The verdict on one output of one stage.
struct Finding {
  Status status = Status::pass;
  std::string stage;   // "sparse_attention.out", "top_k", ...
  std::string detail;  // why, where numbers alone do not say it
  std::int64_t elements = 0;
  std::int64_t failed = 0;
  std::int64_t improbable = 0;

  // The element that used most of its budget.
  std::array<std::int64_t, 3> worst = {-1, -1, -1};  // [t, h, c] or [row, key]; -1: not used
  double expected = 0;
  double low = 0;   // the interval that status is about, in the output format: the statistical one
  double high = 0;  // where IMPROBABLE, else the proven one
  double got = 0;
  double ratio = 0;         // share of the proven budget that it used; > 1 fails
  double likely_ratio = 0;  // share of the statistical budget; > 1 is improbable

  double ratio_p999 = 0;  // 99.9 % of the elements used no more; kMaxQuantile: that or more
  std::int64_t max_ulp = 0;
  double max_abs = 0;
  // 1 - 2 <x, y> / (|x|^2 + |y|^2) over finite pairs: for comparison with others only
  double cosine = 0;

  BudgetPicture picture;  // empty where no budget judges
};

// One line for humans: everything but status and stage; and with them.
std::string describe(const Finding& finding);
std::string to_string(const Finding& finding);

}  // namespace mlacheck
