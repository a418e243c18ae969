#pragma once

#include "cuda/kernels/index_scores_library.h"
#include "cuda/kernels/index_select_launch.h"

// index_select as kernels of the library: those of index_scores, top_k and map_slots in turn.
namespace mlacheck::kernels {

template <mlacheck_dtype Element>
struct IndexSelectKernel {
  using Problem = mlacheck_index_select_problem;
  static constexpr mlacheck_operator kOp = MLACHECK_INDEX_SELECT;
  static constexpr const char* kOpName = "index_select (4)";
  static const Problem& problem(const mlacheck_problem& p) { return p.u.index_select; }

  static std::string refusal_of(const Problem& p) {
    return first_of({q_dtype_refusal<Element>(p.scores.q_dtype), refusal(p)});
  }
  static std::uint64_t bytes(const Problem& p, unsigned multiprocessors) {
    return make_plan(p, multiprocessors).workspace_bytes;
  }
  static std::string flaw(const Problem& p, const mlacheck_tensors& t) {
    return first_of({flaw_of(p.scores, t),
                     absence("selected", p.scores.tokens > 0 && p.k > 0, t.selected),
                     misalignment("selected", t.selected, 4)});
  }
  static void start(device::Stream& stream, const Problem& p, const mlacheck_tensors& t,
                    void* workspace, unsigned multiprocessors) {
    if (!device::kOnDevice) declare_tensors(stream, p.scores, t);
    declare_tensor(stream, "selected", t.selected, p.scores.tokens * p.k * 4,
                   device::Access::read_write);
    launch_index_select<kElementOf<Element>>(stream, p, t, make_plan(p, multiprocessors), workspace,
                                             multiprocessors);
  }
};

inline constexpr mlacheck_kernel kIndexSelectF16 =
    declared<Functions<IndexSelectKernel<MLACHECK_F16>>>(
        MLACHECK_INDEX_SELECT, "index_select_f16", "index_scores_f16, top_k and map_slots in turn",
        kIndexScoresContract);
inline constexpr mlacheck_kernel kIndexSelectBf16 =
    declared<Functions<IndexSelectKernel<MLACHECK_BF16>>>(
        MLACHECK_INDEX_SELECT, "index_select_bf16",
        "index_scores_bf16, top_k and map_slots in turn", kIndexScoresContract);

}  // namespace mlacheck::kernels
