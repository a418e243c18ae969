// What no kernel can be faster than, as kernels of its operators that compute nothing: for
// `mlacheck bench`, which times them as it does others. Their outputs stay unwritten.

#include <iterator>

#include "cuda/kernels/floors/matrix_steps.h"
#include "cuda/kernels/floors/row_gather.h"
#include "cuda/kernels/floors/stream_read.h"
#include "cuda/kernels/sparse_attention_contract.h"
#include "cuda/kernels/sparse_attention_plan.h"

namespace {

using namespace mlacheck;
using namespace mlacheck::kernels;

std::string refusal_of(const mlacheck_sparse_attention_problem& p) {
  const std::string reason = refusal(p);
  if (!reason.empty() || p.index_stride == p.topk) return reason;
  return "index_stride " + std::to_string(p.index_stride) + ": topk, " + std::to_string(p.topk);
}

std::string refusal_of(const mlacheck_index_scores_problem& p) {
  const bool dense = p.keys.format == MLACHECK_CACHE_ROWS && p.keys.row_stride == p.dim * 2 &&
                     p.keys.page_stride == p.keys.page_size * p.keys.row_stride;
  return dense ? "" : "keys: dense rows of 16 bits";
}

template <mlacheck_operator Op>
int supports(const mlacheck_problem* problem, char* why, std::size_t why_size) {
  return guarded(why, why_size, 0, [&] {
    if (problem->op != Op)
      return "op " + std::to_string(problem->op) + ": this floor is of op " + std::to_string(Op);
    std::string reason;
    if (Op == MLACHECK_SPARSE_ATTENTION) reason = refusal_of(problem->u.sparse_attention);
    if (Op == MLACHECK_INDEX_SCORES) reason = refusal_of(problem->u.index_scores);
    return reason.empty() ? device::machine().refusal : reason;
  });
}

// Of no account: nothing is computed.
constexpr mlacheck_contract kContract = [] {
  mlacheck_contract contract = attention_contract(MLACHECK_F16);
  contract.index_dot = contract.index_heads = kTensorCore;
  return contract;
}();

int workspace_size(const mlacheck_problem*, std::uint64_t* bytes) {
  *bytes = 0;
  return 0;
}

void launch_gather(device::Stream& stream, const mlacheck_problem& problem,
                   const mlacheck_tensors& t) {
  const mlacheck_sparse_attention_problem& p = problem.u.sparse_attention;
  const unsigned multiprocessors = device::machine().multiprocessors;
  SparseAttentionArguments a = make_arguments(p, t, make_plan(p, multiprocessors), nullptr);
  a.items = static_cast<std::uint32_t>(p.tokens);
  device::LaunchShape shape;
  shape.blocks = multiprocessors;
  shape.threads = RowGather::kThreads;
  shape.shared_bytes = sizeof(RowGather::Shared);
  device::launch(stream, row_gather, shape, a, "row_gather");
}

void launch_steps(device::Stream& stream, const mlacheck_problem& problem,
                  const mlacheck_tensors& t) {
  const mlacheck_sparse_attention_problem& p = problem.u.sparse_attention;
  if (p.tokens == 0) return;  // no q to take operands from
  device::LaunchShape shape;
  shape.blocks = device::machine().multiprocessors;
  shape.threads = MatrixSteps::kThreads;
  shape.shared_bytes = sizeof(MatrixSteps::Shared);
  const std::int64_t products = p.tokens * p.heads * p.topk * (p.qk_dim + p.v_dim);
  const std::int64_t round = MatrixSteps::kProducts * MatrixSteps::kChains *
                             (MatrixSteps::kThreads / device::kWarpSize) * shape.blocks;
  const MatrixStepsArguments a = {static_cast<const std::uint32_t*>(t.q),
                                  (products + round - 1) / round, t.lse};
  if (p.q_dtype == MLACHECK_F16)
    device::launch(stream, matrix_steps<device::Element::f16>, shape, a, "matrix_steps");
  else
    device::launch(stream, matrix_steps<device::Element::bf16>, shape, a, "matrix_steps");
}

// The keys, without what a cache has between its rows.
void launch_read(device::Stream& stream, const mlacheck_problem& problem,
                 const mlacheck_tensors& t) {
  const mlacheck_index_scores_problem& p = problem.u.index_scores;
  device::LaunchShape shape;
  shape.blocks = device::machine().multiprocessors * StreamRead::kBlocks;
  shape.threads = StreamRead::kThreads;
  const StreamReadArguments a = {static_cast<const device::Words4*>(t.cache),
                                 p.keys.slots * p.dim * 2 / 16,
                                 reinterpret_cast<std::uint32_t*>(t.scores_out)};
  device::launch(stream, stream_read, shape, a, "stream_read");
}

template <void (*Launch)(device::Stream&, const mlacheck_problem&, const mlacheck_tensors&)>
int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void*, std::uint64_t,
        void* stream_handle, char* why, std::size_t why_size) {
  return guarded(why, why_size, 1, [&]() -> std::string {
    device::Stream stream(stream_handle);
    Launch(stream, *problem, *tensors);
    return "";
  });
}

template <mlacheck_operator Op, auto Launch>
struct FloorFunctions {
  static constexpr auto supports = ::supports<Op>;
  static constexpr auto workspace_size = ::workspace_size;
  static constexpr auto run = ::run<Launch>;
};

template <mlacheck_operator Op, auto Launch>
constexpr mlacheck_kernel floor_kernel(const char* name, const char* description) {
  return declared<FloorFunctions<Op, Launch>>(Op, name, description, kContract);
}

constexpr mlacheck_kernel kRowGather = floor_kernel<MLACHECK_SPARSE_ATTENTION, launch_gather>(
    "row_gather", "fetches the rows of all entries");
constexpr mlacheck_kernel kMatrixSteps = floor_kernel<MLACHECK_SPARSE_ATTENTION, launch_steps>(
    "matrix_steps", "as many mma.sync as the problem has products for");
constexpr mlacheck_kernel kStreamRead =
    floor_kernel<MLACHECK_INDEX_SCORES, launch_read>("stream_read", "reads all keys of 16 bits");

constexpr const mlacheck_kernel* kKernels[] = {&kRowGather, &kMatrixSteps, &kStreamRead};

constexpr mlacheck_library kLibrary = {.struct_size = sizeof(mlacheck_library),
                                       .abi_version = MLACHECK_ABI_VERSION,
                                       .name = "mlacheck floors",
                                       .version = MLACHECK_VERSION,
                                       .kernels = kKernels,
                                       .kernel_count = std::size(kKernels),
                                       .reserved = 0};

}  // namespace

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(
    std::uint32_t abi_version) {
  return abi_version == MLACHECK_ABI_VERSION ? &kLibrary : nullptr;
}
