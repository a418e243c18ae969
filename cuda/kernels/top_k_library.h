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
      std::string reason = misalignment("scores_in", tensors->scores_in, 4);
      if (reason.empty() && needed > 0) reason = misalignment("workspace", workspace, 256);
      if (!reason.empty()) return reason;
      device::Stream stream(stream_handle);
      declare_tensors(stream, p, *tensors, workspace, static_cast<std::int64_t>(needed));
      launch_top_k<TopKRules>(stream, plan, make_arguments(p, *tensors, plan, workspace));
      return "";
    });
  }
};

// It rounds nothing: of a contract, only what is promised of any kernel is read.
constexpr mlacheck_contract top_k_contract() {
  mlacheck_contract contract = {};
  contract.struct_size = sizeof(mlacheck_contract);
  contract.batch_invariant = 1;
  contract.run_deterministic = 1;
  return contract;
}

inline constexpr mlacheck_kernel kTopK = {
    .struct_size = sizeof(mlacheck_kernel),
    .op = MLACHECK_TOP_K,
    .name = "top_k",
    .description = "exact, any rows, any range, k up to 4,096",
    .memory = device::kOnDevice ? MLACHECK_DEVICE : MLACHECK_HOST,
    .reserved = 0,
    .conventions = kDefaultConventions,
    .contract = top_k_contract(),
    .supports = TopKKernel::supports,
    .workspace_size = TopKKernel::workspace_size,
    .run = TopKKernel::run,
    .relu_drops_nan = 0,
    .reserved_2 = 0};

}  // namespace mlacheck::kernels
