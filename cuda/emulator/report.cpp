#include "cuda/emulator/report.h"

#include <fmt/format.h>

namespace mlacheck::emulator {

std::string_view name_of(ReportKind kind) {
  switch (kind) {
    case ReportKind::data_race:
      return "data race";
    case ReportKind::missing_wait:
      return "missing wait";
    case ReportKind::uninitialised_read:
      return "uninitialised read";
    case ReportKind::out_of_bounds:
      return "out of bounds";
    case ReportKind::misaligned:
      return "misaligned";
    case ReportKind::read_only:
      return "write to read-only memory";
    case ReportKind::early_access:
      return "early access";
    case ReportKind::divergence:
      return "divergence";
    case ReportKind::barrier_misuse:
      return "barrier misuse";
    case ReportKind::register_misuse:
      return "register misuse";
    case ReportKind::deadlock:
      return "deadlock";
    case ReportKind::stack_overflow:
      return "stack overflow";
  }
  return "?";
}

std::string Report::text() const {
  std::string text =
      fmt::format("{}:{}:{}: {}: {}: block ({}, {}), thread {} (warp {}, lane {})", file, line,
                  column, kernel, name_of(kind), block, block_y, thread, thread / 32, thread % 32);
  if (space == Space::shared) text += fmt::format(", shared memory + {}", offset);
  if (space == Space::global && region.empty()) text += fmt::format(", address {:#x}", offset);
  if (space == Space::global && !region.empty()) text += fmt::format(", {} + {}", region, offset);
  text += ": " + message;
  if (count > 1) text += fmt::format(" ({} times)", count);
  return text;
}

}  // namespace mlacheck::emulator
