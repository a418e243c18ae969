#include "reference/verdict/verdict.h"

#include <fmt/format.h>

#include <cmath>

namespace mlacheck {
namespace {

std::string coordinates(const std::array<std::int64_t, 3>& at) {
  std::string text;
  for (const std::int64_t i : at)
    if (i >= 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  return fmt::format("[{}]", text);
}

// That so much off is this share of.
std::string budget(double off, double share) {
  const double whole = off / share;
  return std::isfinite(whole) && whole > 0 ? fmt::format(" of {:.4g}", whole) : "";
}

}  // namespace

std::string describe(const Finding& f) {
  std::string text;
  if (f.elements > 0) {
    if (f.failed > 0)
      text += fmt::format("{} of {} elements outside the proven bound", f.failed, f.elements);
    else if (f.improbable > 0)
      text +=
          fmt::format("{} of {} elements outside the statistical bound", f.improbable, f.elements);
    else
      text += fmt::format("{} elements", f.elements);
    // The interval is of the output's values; the budget is before they are rounded to.
    if (f.worst[0] >= 0 && !f.picture.elements.empty()) {
      const double off = std::abs(f.got - f.expected);
      text += fmt::format(
          "; worst {}: got {:.9g}, expected {:.12g}, rounded in [{:.9g}, {:.9g}], off by {:.4g}, ",
          coordinates(f.worst), f.got, f.expected, f.low, f.high, off);
      if (f.failed == 0 && f.improbable > 0)
        text += fmt::format("statistical budget used {:.3g} %{}, proven ", 100 * f.likely_ratio,
                            budget(off, f.likely_ratio));
      text += fmt::format("budget used {:.3g} %{}", 100 * f.ratio, budget(off, f.ratio));
    }
    if (f.max_ulp > 0)
      text += fmt::format("; p99.9 {}{:.3g} %, max {} ulp, max |d| {:.3g}, 1-cos {:.2g}",
                          f.ratio_p999 >= kMaxQuantile ? ">= " : "", 100 * f.ratio_p999, f.max_ulp,
                          f.max_abs, f.cosine);
  }
  if (!f.detail.empty()) text += fmt::format("{}{}", text.empty() ? "" : ": ", f.detail);
  return text;
}

std::string to_string(const Finding& f) {
  const std::string text = describe(f);
  return fmt::format("{} {}{}{}", name_of(f.status), f.stage, text.empty() ? "" : ": ", text);
}

}  // namespace mlacheck
