#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "reference/verdict/budget_picture.h"
#include "reference/verdict/status.h"

namespace mlacheck {

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
