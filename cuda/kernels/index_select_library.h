#pragma once

#include "cuda/kernels/index_scores_library.h"
#include "cuda/kernels/index_select_launch.h"

// index_select as kernels of the library: those of index_scores, top_k and map_slots in turn.
namespace mlacheck::kernels {

template <mlacheck_dtype Element>
struct IndexSelectKernel {
  static int supports(const mlacheck_problem* problem, char* why, std::size_t why_size) {
    return guarded(why, why_size, 0, [&] {
      if (problem->op != MLACHECK_INDEX_SELECT)
        return "op " + std::to_string(problem->op) + ": this kernel runs index_select (4)";
      const mlacheck_index_select_problem& p = problem->u.index_select;
      if (p.scores.q_dtype != Element)
        return "q_dtype " + std::to_string(p.scores.q_dtype) + ": this kernel takes " +
               IndexScoresKernel<Element>::kElement;
      std::string reason = refusal(p);
      return reason.empty() ? device::machine().refusal : reason;
    });
  }

  static int workspace_size(const mlacheck_problem* problem, std::uint64_t* bytes) {
    char unheard[1];
    return guarded(unheard, sizeof unheard, 1, [&] {
      const device::Machine machine = device::machine();
      *bytes = make_plan(problem->u.index_select, machine.multiprocessors).workspace_bytes;
      return machine.refusal;
    });
  }

  static int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void* workspace,
                 std::uint64_t workspace_given, void* stream_handle, char* why,
                 std::size_t why_size) {
    return guarded(why, why_size, 1, [&]() -> std::string {
      const mlacheck_index_select_problem& p = problem->u.index_select;
      const mlacheck_tensors& t = *tensors;
      const device::Machine machine = device::machine();
      if (!machine.refusal.empty()) return machine.refusal;
      const IndexSelectPlan plan = make_plan(p, machine.multiprocessors);
      if (workspace_given < plan.workspace_bytes)
        return "workspace: " + std::to_string(workspace_given) + " bytes, needs " +
               std::to_string(plan.workspace_bytes);
      std::string reason = first_of(
          {flaw_of(p.scores, t), absence("selected", plan.rows > 0, t.selected),
           misalignment("selected", t.selected, 4),
           misalignment("workspace", plan.workspace_bytes > 0 ? workspace : nullptr, 256)});
      if (!reason.empty()) return reason;
      device::Stream stream(stream_handle);
      if (!device::kOnDevice) declare_tensors(stream, p.scores, t);
      declare_tensor(stream, "selected", t.selected, p.scores.tokens * p.k * 4,
                     device::Access::read_write);
      declare_tensor(stream, "workspace", workspace,
                     static_cast<std::int64_t>(plan.workspace_bytes), device::Access::write);
      constexpr auto kE = Element == MLACHECK_F16 ? device::Element::f16 : device::Element::bf16;
      launch_index_select<kE>(stream, p, t, plan, workspace, machine.multiprocessors);
      return "";
    });
  }
};

inline constexpr mlacheck_kernel kIndexSelectF16 = declared<IndexSelectKernel<MLACHECK_F16>>(
    MLACHECK_INDEX_SELECT, "index_select_f16", "index_scores_f16, top_k and map_slots in turn",
    kIndexScoresContract);
inline constexpr mlacheck_kernel kIndexSelectBf16 = declared<IndexSelectKernel<MLACHECK_BF16>>(
    MLACHECK_INDEX_SELECT, "index_select_bf16", "index_scores_bf16, top_k and map_slots in turn",
    kIndexScoresContract);

}  // namespace mlacheck::kernels
