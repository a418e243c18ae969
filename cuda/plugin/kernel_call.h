#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "cuda/plugin/block_parts.h"
#include "cuda/plugin/shared_memory.h"

namespace mlacheck {

// The members of mlacheck_tensors: inputs first, then outputs.
enum class CallTensor : std::uint32_t {
  q,
  cache,
  indices,
  topk_length,
  attn_sink,
  weights,
  block_table,
  request,
  range_begin,
  range_end,
  scores_in,
  positions,
  out,
  lse,
  max_logit,
  scores_out,
  selected,
  slots,
};
inline constexpr std::size_t kCallTensors = 18;

// What stands around the tensors of a call and around its workspace. A whole page, so that kernels that read rows in
// large steps stay inside the block too.
inline constexpr std::size_t kGuardBytes = 4096;
// Of the address of every tensor and of the workspace.
inline constexpr std::size_t kTensorAlignment = 256;
// Floats and workspaces before the kernel writes them: a NaN.
inline constexpr std::byte kPoison{0xff};
inline constexpr std::byte kIntegerPoison{0xa5};

std::string_view tensor_name(CallTensor tensor);
constexpr bool is_output(CallTensor tensor) { return tensor >= CallTensor::out; }
// Whether it has no row for each token: calls on consecutive rows share it.
constexpr bool is_shared(CallTensor tensor) {
  return tensor == CallTensor::cache || tensor == CallTensor::attn_sink ||
         tensor == CallTensor::block_table;
}

// How many calls a call stands for, to be timed one after another: of the same problem, on
// consecutive rows.
struct CallSeries {
  std::int32_t calls = 1;
  bool own_caches = false;  // each has a copy of the cache, so that none finds it in the L2 cache
};

// What an output holds before the kernel writes it.
std::byte poison_of(CallTensor tensor);

// What stands at the start of the shared block (PROTOCOL.md).
struct CallHeader {
  struct Piece {
    std::uint64_t offset;  // from the start of the block; 0: the call has no such tensor
    std::uint64_t bytes;
    std::uint64_t stride;  // to that of the next call; 0 where they share it
  };
  std::int32_t calls;  // that the tensors are for
  std::uint32_t reserved;
  std::uint64_t bytes;  // of the block
  Piece pieces[kCallTensors];
  mlacheck_problem problem;  // last: fields are appended to it
};

// One call of a kernel, laid out in shared memory so that another process can make it:
//
//   header | guard | tensor | guard | guard | tensor | guard | ...
//
// Of a cache whose pages lie far apart only the pages are memory (block_parts.h).
//
// A guard shows writes outside a tensor. Outputs start as poison (all ones, a NaN, for floats;
// kIntegerPoison for integers), so that what a kernel leaves unwritten shows. Inputs are hashed, so
// that a changed one shows.
class KernelCall {
 public:
  struct Input {
    CallTensor tensor;
    std::span<const std::byte> bytes;
  };
  struct Output {
    CallTensor tensor;
    std::size_t bytes;
  };

  // Copies the inputs. Of a series the problem is each call's, inputs and outputs are those of all.
  // Throws std::system_error when shared memory is short.
  KernelCall(const mlacheck_problem& problem, std::span<const Input> inputs,
             std::span<const Output> outputs, const CallSeries& series = {});
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  int file_descriptor() const { return memory_.file_descriptor(); }
  const mlacheck_problem& problem() const { return layout_.problem; }
  std::int32_t calls() const { return layout_.calls; }
  std::span<const std::byte> tensor(CallTensor tensor, std::int32_t call = 0) const;

  // What a finished call did that it must not: "wrote before lse", "wrote past the end of lse",
  // "changed its input q", "wrote between the pages of cache", "changed the problem".
  std::vector<std::string> trespasses() const;

 private:
  std::byte* block() const { return memory_.bytes().data(); }
  const CallHeader::Piece& piece(CallTensor tensor) const {
    return layout_.pieces[static_cast<std::size_t>(tensor)];
  }
  std::int32_t copies(CallTensor tensor) const {
    return piece(tensor).stride == 0 ? 1 : layout_.calls;
  }
  // What the tensor holds, from its own start.
  std::vector<BlockPart> parts_of(CallTensor tensor) const;
  std::uint64_t hash_of_inputs(CallTensor tensor) const;

  // As it was laid out: a kernel that writes wildly can reach the copy in shared memory.
  CallHeader layout_;
  std::vector<BlockPart> parts_;  // of the block
  SharedMemory memory_;
  std::uint64_t input_hashes_[kCallTensors] = {};
};

}  // namespace mlacheck
