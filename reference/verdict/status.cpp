#include "reference/verdict/status.h"

#include <algorithm>

namespace mlacheck {

std::string_view name_of(Status status) {
  switch (status) {
    case Status::pass:
      return "PASS";
    case Status::skipped:
      return "SKIPPED";
    case Status::refused:
      return "REFUSED";
    case Status::mistrusted:
      return "MISTRUSTED";
    case Status::improbable:
      return "IMPROBABLE";
    case Status::fail:
      return "FAIL";
    case Status::crashed:
      return "CRASHED";
  }
  return "?";
}

int exit_code(std::span<const Status> statuses) {
  const auto any = [&](auto... wanted) {
    return std::any_of(statuses.begin(), statuses.end(),
                       [&](Status status) { return ((status == wanted) || ...); });
  };
  if (any(Status::fail, Status::crashed)) return kExitFailure;
  if (any(Status::mistrusted, Status::improbable)) return kExitDoubtful;
  return any(Status::pass) ? kExitPass : kExitSkipped;
}

}  // namespace mlacheck
