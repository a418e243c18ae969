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

// What stands around the tensors of a call and around its workspace. A whole page, so that kernels
// that read rows in large steps stay inside the block too.
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
// By the bits of an element of an output: hardly any value that a kernel writes has them, of floats
// a NaN of all ones.
bool is_unwritten(std::span<const std::byte> element, CallTensor tensor);

// What stands at the start of the shared block, one for each stage, kHeaderBytes apart
// (PROTOCOL.md).
struct CallHeader {
  struct Piece {
    std::uint64_t offset;  // from the start of the block; 0: the call has no such tensor
    std::uint64_t bytes;
    std::uint64_t stride;  // to that of the next call; 0 where they share it
  };
  std::int32_t calls;       // that the tensors are for
  std::uint32_t following;  // stages
  std::uint64_t bytes;      // of the block
  Piece pieces[kCallTensors];
  mlacheck_problem problem;  // last: fields are appended to it
};
inline constexpr std::size_t kHeaderBytes =
    (sizeof(CallHeader) + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;

// Those of a block. Throws std::runtime_error where it has no room for as many as it says.
std::vector<const CallHeader*> headers_of(std::span<const std::byte> block);

// One call of a kernel, laid out in shared memory so that another process can make it:
//
//   header | guard | tensor | guard | guard | tensor | guard | ...
//
// or a chain of calls, stage after stage, of which one may read what another has written. Of a
// cache whose pages lie far apart only the pages are memory (block_parts.h).
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

  // An input that an earlier stage's output is.
  struct Link {
    CallTensor input;
    std::size_t stage;
    CallTensor output;
  };
  struct Stage {
    mlacheck_problem problem = {};
    std::vector<Input> inputs = {};
    std::vector<Output> outputs = {};
    std::vector<Link> links = {};
    bool own_caches = false;
  };

  // Copies the inputs. Of a series the problem is each call's, inputs and outputs are those of all.
  // Throws std::system_error when shared memory is short.
  KernelCall(const mlacheck_problem& problem, std::span<const Input> inputs,
             std::span<const Output> outputs, const CallSeries& series = {});
  // A chain, or so many of them on consecutive rows.
  KernelCall(std::span<const Stage> stages, std::int32_t calls);
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  int file_descriptor() const { return memory_.file_descriptor(); }
  std::size_t stages() const { return stages_.size(); }
  const mlacheck_problem& problem(std::size_t stage = 0) const {
    return stages_[stage].layout.problem;
  }
  std::int32_t calls() const { return stages_[0].layout.calls; }
  std::span<const std::byte> tensor(CallTensor tensor, std::int32_t call = 0,
                                    std::size_t stage = 0) const;

  // What a finished call did that it must not: "wrote before lse", "wrote past the end of lse",
  // "changed its input q", "wrote between the pages of cache", "changed the problem".
  std::vector<std::string> trespasses() const;

 private:
  // As it was laid out: a kernel that writes wildly can reach the copy in shared memory.
  struct Laid {
    CallHeader layout = {};
    std::uint64_t input_hashes[kCallTensors] = {};
    bool is_linked[kCallTensors] = {};
  };
  static std::vector<Laid> lay_out(std::span<const Stage> stages, std::int32_t calls);
  static std::vector<BlockPart> parts_of_block(const std::vector<Laid>& stages);

  std::byte* block() const { return memory_.bytes().data(); }
  std::int32_t copies(const Laid& stage, CallTensor tensor) const {
    return stage.layout.pieces[static_cast<std::size_t>(tensor)].stride == 0 ? 1 : calls();
  }
  // What the tensor holds, from its own start.
  static std::vector<BlockPart> parts_of(const Laid& stage, CallTensor tensor);
  std::uint64_t hash_of_inputs(std::size_t stage, CallTensor tensor) const;
  void find_trespasses(std::size_t stage, std::vector<std::string>& found) const;

  std::vector<Laid> stages_;
  std::vector<BlockPart> parts_;  // of the block
  SharedMemory memory_;
};

}  // namespace mlacheck
