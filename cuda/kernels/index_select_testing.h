#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cuda/kernels/index_scores_testing.h"
#include "cuda/kernels/index_select_library.h"
#include "reference/operators/map_slots.h"
#include "reference/operators/top_k.h"

// Small problems for index_select, run on the emulator.
namespace mlacheck::kernels::testing {

inline constexpr std::int64_t kSelected = 20;

// Ragged rows of three requests in pages of 8.
inline IndexProblem ragged() {
  IndexProblem problem(7, 5, 75, device::Element::f16);
  problem.begin = {0, 3, 40, 75, 10, 0, 60};
  problem.end = {75, 60, 45, 75, 31, 1, 75};
  problem.paginate(8, 3);
  return problem;
}

inline mlacheck_index_select_problem abi(const IndexProblem& problem, bool to_slots) {
  mlacheck_index_select_problem p = {};
  p.scores = problem.abi();
  p.k = kSelected;
  p.to_slots = to_slots ? 1 : 0;
  return p;
}

struct Selected {
  std::vector<std::int32_t> keys;
  std::vector<emulator::Report> reports;
  std::vector<emulator::CallSite> call_sites;
};

// `p` is the problem's, perhaps with something wrong in it.
inline Selected select(const IndexProblem& problem, const mlacheck_index_select_problem& p,
                       const IndexSelectPlan& plan, emulator::SessionOptions options = {}) {
  constexpr std::int32_t kUnwrittenKey = 12345;
  Selected selected;
  selected.keys.assign(static_cast<std::size_t>(p.scores.tokens * p.k), kUnwrittenKey);
  std::vector<std::uint64_t> workspace(plan.workspace_bytes / 8 + 1000);  // some is not its own
  mlacheck_tensors t = problem.tensors(nullptr);
  t.selected = selected.keys.data();
  emulator::Session session(std::move(options));
  device::Stream stream(&session);
  declare_tensors(stream, problem.abi(), t);
  device::declare_memory(stream, "selected", t.selected, selected.keys.size() * 4,
                         device::Access::read_write);
  device::declare_memory(stream, "workspace", workspace.data(), plan.workspace_bytes,
                         device::Access::write);
  try {
    launch_index_select<device::Element::f16>(stream, p, t, plan, workspace.data(), 4);
  } catch (const std::runtime_error&) {
    if (session.reports().empty()) throw;
  }
  selected.reports = session.reports();
  selected.call_sites = session.call_sites();
  return selected;
}

// What the kernel's own scores ask for.
inline std::vector<std::int32_t> expected_keys(const IndexProblem& problem) {
  const ScoreOutcome outcome = problem.run(problem.plan());
  std::vector<std::int32_t> keys(static_cast<std::size_t>(problem.tokens * kSelected));
  for (std::int64_t t = 0; t < problem.tokens; ++t)
    mlacheck::top_k(outcome.scores.data() + t * problem.key_count, problem.begin_of(t),
                    problem.end_of(t), kSelected, keys.data() + t * kSelected);
  return keys;
}

// Selected keys as slots, each row through its table.
inline std::vector<std::int32_t> slots_of_keys(const IndexProblem& problem,
                                               const std::vector<std::int32_t>& keys) {
  std::vector<std::int32_t> slots(keys.size());
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    const auto row = static_cast<std::size_t>(t * kSelected);
    mlacheck::map_slots(
        {keys.data() + row, static_cast<std::size_t>(kSelected)},
        {problem.block_table.data() + problem.request[static_cast<std::size_t>(t)] * problem.stride,
         static_cast<std::size_t>(problem.stride)},
        problem.page_size, {slots.data() + row, static_cast<std::size_t>(kSelected)});
  }
  return slots;
}

}  // namespace mlacheck::kernels::testing
