#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>

namespace mlacheck::detail {

// body(i, state) for i in [0, n), threads split the rows; every thread that gets one makes a state
// for all of its own. One row has no threads of its own: what it calls may. An exception must not
// leave an OpenMP region: the first one is thrown again after it, with some rows undone. For
// sources compiled with OpenMP.
template <class MakeState, class Body>
void parallel_rows(std::int64_t n, const MakeState& make_state, const Body& body) {
  std::exception_ptr first;
  std::atomic<bool> failed{false};
#pragma omp parallel if (n > 1)
  {
    std::optional<std::invoke_result_t<MakeState>> state;
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < n; ++i) {
      if (failed) continue;
      try {
        if (!state) state.emplace(make_state());
        body(i, *state);
      } catch (...) {
        if (!failed.exchange(true)) first = std::current_exception();
      }
    }
  }
  if (first) std::rethrow_exception(first);
}

// body(i) for i in [0, n).
template <class Body>
void parallel_rows(std::int64_t n, const Body& body) {
  struct None {};
  parallel_rows(
      n, [] { return None{}; }, [&](std::int64_t i, None&) { body(i); });
}

}  // namespace mlacheck::detail
