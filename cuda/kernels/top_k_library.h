#pragma once

#include "cuda/kernels/library_support.h"
#include "cuda/kernels/top_k_launch.h"

// top_k as a kernel of the library.
namespace mlacheck::kernels {

// What the launches may touch, for the emulator.
inline void declare_tensors(device::Stream& stream, const mlacheck_top_k_problem& p,
                            const mlacheck_tensors& t) {
  using device::Access;
  if (p.rows == 0) return;
  declare_tensor(stream, "scores", t.scores_in, ((p.rows - 1) * p.score_stride + p.columns) * 4,
                 Access::read);
  declare_tensor(stream, "row_begin", t.range_begin, p.rows * 4, Access::read);
  declare_tensor(stream, "row_end", t.range_end, p.rows * 4, Access::read);
  declare_tensor(stream, "selected", t.selected, p.rows * p.k * 4, Access::write);
}

struct TopKKernel {
  using Problem = mlacheck_top_k_problem;
  static constexpr mlacheck_operator kOp = MLACHECK_TOP_K;
  static constexpr const char* kOpName = "top_k (3)";
  static const Problem& problem(const mlacheck_problem& p) { return p.u.top_k; }

  static std::string refusal_of(const Problem& p) { return refusal(p); }
  static std::uint64_t bytes(const Problem& p, unsigned multiprocessors) {
    return workspace_bytes(make_plan(p, multiprocessors));
  }
  static std::string flaw(const Problem& p, const mlacheck_tensors& t) {
    const bool any = p.rows > 0 && p.k > 0;
    return first_of({absence("scores_in", any && p.columns > 0, t.scores_in),
                     absence("selected", any, t.selected),
                     absence("range_begin", any && p.has_row_range != 0, t.range_begin),
                     absence("range_end", any && p.has_row_range != 0, t.range_end),
                     misalignment("scores_in", t.scores_in, 4),
                     misalignment("selected", t.selected, 4)});
  }
  static void start(device::Stream& stream, const Problem& p, const mlacheck_tensors& t,
                    void* workspace, unsigned multiprocessors) {
    declare_tensors(stream, p, t);
    const TopKPlan plan = make_plan(p, multiprocessors);
    launch_top_k<TopKRules>(stream, plan, make_arguments(p, t, plan, workspace));
  }
};

inline constexpr mlacheck_kernel kTopK = declared<Functions<TopKKernel>>(
    MLACHECK_TOP_K, "top_k", "exact, any rows, any range, k up to 4,096", kExactContract);

}  // namespace mlacheck::kernels
