#pragma once

#include "cuda/kernels/library_support.h"
#include "cuda/kernels/top_k_launch.h"

// top_k as a kernel of the library.
namespace mlacheck::kernels {

// What the launches may touch, for the emulator.
inline void declare_tensors(device::Stream& stream, const mlacheck_top_k_problem& p,
                            const mlacheck_tensors& t, void* workspace,
                            std::int64_t workspace_bytes) {
  using device::Access;
  if (p.rows == 0) return;
  declare_tensor(stream, "scores", t.scores_in, ((p.rows - 1) * p.score_stride + p.columns) * 4,
                 Access::read);
  declare_tensor(stream, "row_begin", t.range_begin, p.rows * 4, Access::read);
  declare_tensor(stream, "row_end", t.range_end, p.rows * 4, Access::read);
  declare_tensor(stream, "selected", t.selected, p.rows * p.k * 4, Access::write);
  declare_tensor(stream, "workspace", workspace, workspace_bytes, Access::write);
}

struct TopKKernel {
  static int supports(const mlacheck_problem* problem, char* why, std::size_t why_size) {
    return guarded(why, why_size, 0, [&] {
      if (problem->op != MLACHECK_TOP_K)
        return "op " + std::to_string(problem->op) + ": this kernel runs top_k (3)";
      std::string reason = refusal(problem->u.top_k);
      return reason.empty() ? device::machine().refusal : reason;
    });
  }

  static int workspace_size(const mlacheck_problem* problem, std::uint64_t* bytes) {
    char unheard[1];
    return guarded(unheard, sizeof unheard, 1, [&] {
      const device::Machine machine = device::machine();
      *bytes = workspace_bytes(make_plan(problem->u.top_k, machine.multiprocessors));
      return machine.refusal;
    });
  }

  static int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void* workspace,
                 std::uint64_t workspace_given, void* stream_handle, char* why,
                 std::size_t why_size) {
    return guarded(why, why_size, 1, [&]() -> std::string {
      const mlacheck_top_k_problem& p = problem->u.top_k;
      const device::Machine machine = device::machine();
      if (!machine.refusal.empty()) return machine.refusal;
      const TopKPlan plan = make_plan(p, machine.multiprocessors);
      const std::uint64_t needed = workspace_bytes(plan);
      if (workspace_given < needed)
        return "workspace: " + std::to_string(workspace_given) + " bytes, needs " +
               std::to_string(needed);
      const bool any = p.rows > 0 && p.k > 0;
      std::string reason =
          first_of({absence("scores_in", any && p.columns > 0, tensors->scores_in),
                    absence("selected", any, tensors->selected),
                    absence("range_begin", any && p.has_row_range != 0, tensors->range_begin),
                    absence("range_end", any && p.has_row_range != 0, tensors->range_end),
                    misalignment("scores_in", tensors->scores_in, 4),
                    misalignment("selected", tensors->selected, 4),
                    misalignment("workspace", needed > 0 ? workspace : nullptr, 256)});
      if (!reason.empty()) return reason;
      device::Stream stream(stream_handle);
      declare_tensors(stream, p, *tensors, workspace, static_cast<std::int64_t>(needed));
      launch_top_k<TopKRules>(stream, plan, make_arguments(p, *tensors, plan, workspace));
      return "";
    });
  }
};

inline constexpr mlacheck_kernel kTopK = declared<TopKKernel>(
    MLACHECK_TOP_K, "top_k", "exact, any rows, any range, k up to 4,096", kExactContract);

}  // namespace mlacheck::kernels
