#pragma once

#include <span>
#include <string_view>

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
// The same where an error came beside: 3, but a failure stays one.
constexpr int with_error(int code) { return code == kExitFailure ? code : kExitHarness; }

}  // namespace mlacheck
