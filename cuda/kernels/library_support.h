#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>

#include "cuda/device/launch.h"
#include "cuda/device/matrix.h"
#include "cuda/include/mlacheck_kernel.h"

// What the project's kernels share in how they declare themselves (cuda/include/mlacheck_kernel.h).
namespace mlacheck::kernels {

inline void say(char* why, std::size_t size, const std::string& text) {
  if (size == 0) return;
  const std::size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.begin(), length, why);
  why[length] = '\0';
}

// No exception leaves a C function: its text becomes the reason.
template <class F>
int guarded(char* why, std::size_t why_size, int failure, F f) {
  try {
    const std::string reason = f();
    say(why, why_size, reason);
    return reason.empty() ? 1 - failure : failure;
  } catch (const std::exception& error) {
    say(why, why_size, error.what());
    return failure;
  }
}

// Why a kernel cannot take an address; empty when it can.
inline std::string misalignment(const char* name, const void* data, std::uintptr_t alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address % alignment == 0
             ? std::string()
             : std::string(name) + " at an address of " + std::to_string(address % alignment) +
                   " modulo " + std::to_string(alignment) + ": a multiple of it";
}

// Why a kernel cannot do without a tensor that the problem says there is; empty when it is there.
inline std::string absence(const char* name, bool wanted, const void* data) {
  std::string reason;
  if (wanted && data == nullptr) reason.append(name).append(" is null, and the problem has it");
  return reason;
}

// The first that is not empty.
inline std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& reason : reasons)
    if (!reason.empty()) return reason;
  return "";
}

// Tells the emulator of a tensor; an absent or empty one is none.
inline void declare_tensor(device::Stream& stream, const char* name, const void* data,
                           std::int64_t bytes, device::Access access) {
  if (data != nullptr && bytes > 0)
    device::declare_memory(stream, name, data, static_cast<std::uint64_t>(bytes), access);
}

inline constexpr mlacheck_conventions kDefaultConventions = {
    .struct_size = sizeof(mlacheck_conventions),
    .lse_base = MLACHECK_LSE_NATURAL,
    .lse_empty = MLACHECK_EMPTY_MINUS_INF,
    .sink_in_lse = 0,
    .duplicates_once = 0,
    .row_relative = 0,
    .any_order = 0,
    .any_tie = 0,
    .nan_first = 0,
    .unmasked_scores = 0,
    .record_reader = 0,
};

// Tensor-core steps of 16 products (reference/arithmetic/tensor_core.h).
inline constexpr mlacheck_accumulation kTensorCore = {16, MLACHECK_SUM_SEQUENTIAL, 1, 25, 0};

inline constexpr mlacheck_accumulation kUnused = {1, MLACHECK_SUM_SEQUENTIAL, 0, 25, 0};

// Of a kernel that rounds nothing: only what is promised of any kernel is read.
inline constexpr mlacheck_contract kExactContract = [] {
  mlacheck_contract contract = {};
  contract.struct_size = sizeof(mlacheck_contract);
  contract.batch_invariant = 1;
  contract.run_deterministic = 1;
  return contract;
}();

// The element type that a kernel takes q in, for those with one kernel a type.
template <mlacheck_dtype Dtype>
inline constexpr auto kElementOf =
    Dtype == MLACHECK_F16 ? device::Element::f16 : device::Element::bf16;
template <mlacheck_dtype Dtype>
std::string q_dtype_refusal(std::int32_t q_dtype) {
  if (q_dtype == Dtype) return "";
  return "q_dtype " + std::to_string(q_dtype) + ": this kernel takes " +
         (Dtype == MLACHECK_F16 ? "f16 (2)" : "bf16 (3)");
}

// The C functions of a kernel, from what is its own:
//
//   kOp, kOpName                                       "top_k (3)"
//   problem(problem)                                   its member of the union
//   refusal_of(p)                                      why it does not run p; empty when it does
//   bytes(p, multiprocessors)                          of workspace
//   flaw(p, t)                                         which tensor it cannot take; empty: none
//   start(stream, p, t, workspace, multiprocessors)    workspace: null where it needs none
template <class K>
struct Functions {
  static int supports(const mlacheck_problem* problem, char* why, std::size_t why_size) {
    return guarded(why, why_size, 0, [&] {
      if (problem->op != K::kOp)
        return "op " + std::to_string(problem->op) + ": this kernel runs " + K::kOpName;
      std::string reason = K::refusal_of(K::problem(*problem));
      return reason.empty() ? device::machine().refusal : reason;
    });
  }

  static int workspace_size(const mlacheck_problem* problem, std::uint64_t* bytes) {
    char unheard[1];
    return guarded(unheard, sizeof unheard, 1, [&] {
      const device::Machine machine = device::machine();
      *bytes = K::bytes(K::problem(*problem), machine.multiprocessors);
      return machine.refusal;
    });
  }

  static int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void* workspace,
                 std::uint64_t workspace_given, void* stream_handle, char* why,
                 std::size_t why_size) {
    return guarded(why, why_size, 1, [&]() -> std::string {
      const auto& p = K::problem(*problem);
      const device::Machine machine = device::machine();
      if (!machine.refusal.empty()) return machine.refusal;
      const std::uint64_t needed = K::bytes(p, machine.multiprocessors);
      if (workspace_given < needed)
        return "workspace: " + std::to_string(workspace_given) + " bytes, needs " +
               std::to_string(needed);
      void* const used = needed > 0 ? workspace : nullptr;
      std::string reason = first_of({K::flaw(p, *tensors), misalignment("workspace", used, 256)});
      if (!reason.empty()) return reason;
      device::Stream stream(stream_handle);
      declare_tensor(stream, "workspace", used, static_cast<std::int64_t>(needed),
                     device::Access::write);
      K::start(stream, p, *tensors, used, machine.multiprocessors);
      return "";
    });
  }
};

// A kernel by its C functions: K::supports, K::workspace_size, K::run.
template <class K>
constexpr mlacheck_kernel declared(mlacheck_operator op, const char* name, const char* description,
                                   const mlacheck_contract& contract) {
  return {.struct_size = sizeof(mlacheck_kernel),
          .op = op,
          .name = name,
          .description = description,
          .memory = device::kOnDevice ? MLACHECK_DEVICE : MLACHECK_HOST,
          .reserved = 0,
          .conventions = kDefaultConventions,
          .contract = contract,
          .supports = K::supports,
          .workspace_size = K::workspace_size,
          .run = K::run,
          .relu_drops_nan = 0,
          .reserved_2 = 0};
}

}  // namespace mlacheck::kernels
