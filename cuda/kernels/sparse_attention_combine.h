#pragma once

#include "cuda/device/barrier.h"
#include "cuda/kernels/sparse_attention_result.h"

namespace mlacheck::kernels {

// Folds the chunks of a row, in order, into its result: what a block that does all of a row's
// chunks does, operation for operation.
//
// A block takes 16 heads of a token and some of the eight times 64 columns: 256 threads, each one
// 16-byte fragment of the partial results at a time. `kGroupHeads` is that of the kernel that wrote
// them, and with it their layout:
//   64   [chunk][warp 8][16 heads 4][8 columns 8][lane 32]
//   16   [chunk][warp 4][64 columns 2][8 columns 8][lane 32]
struct SparseAttentionCombine {
  static constexpr int kThreads = 256;
  static constexpr int kHeads = 16;
  static constexpr int kMaxChunks = 64;
  static constexpr int kAhead = 16;  // chunks that a thread loads at once
  static constexpr int kParts = kVDim / 64;

  struct Shared {
    float max[kMaxChunks][kHeads];
    float sum[kMaxChunks][kHeads];
    float largest[kMaxChunks][kHeads];
    FoldWeights weights[kMaxChunks][kHeads];
    float factor[kHeads];
  };
  static_assert(sizeof(Shared) <= 48 * 1024);
};

// The scalars of 16 heads: the weights of each chunk's fold, one a thread, and from them the state
// of the row, by the first thread of a head.
template <int kGroupHeads>
class CombineHeads {
  using K = SparseAttentionCombine;
  static constexpr std::int32_t kStep = K::kThreads / K::kHeads;

 public:
  // `row` counts tokens and head groups; `first_head` is within the group.
  MLACHECK_DEVICE_FN CombineHeads(const SparseAttentionArguments& arguments, K::Shared& shared,
                                  std::uint32_t row, std::int32_t first_head, std::int32_t chunks)
      : a_(arguments),
        s_(shared),
        chunks_(chunks),
        head_(static_cast<std::int32_t>(device::thread_index()) % K::kHeads),
        first_(static_cast<std::int32_t>(device::thread_index()) / K::kHeads),
        at_(std::int64_t{row} * arguments.chunks.divisor() * kGroupHeads + first_head + head_) {}

  // Loads what fold_states needs.
  MLACHECK_DEVICE_FN void load() {
    for (std::int32_t c = first_; c < chunks_; c += kStep) {
      const std::int64_t from = at_ + c * kGroupHeads;
      device::store(device::shared(s_.max[c][head_]), device::load(a_.partial_max + from));
      device::store(device::shared(s_.sum[c][head_]), device::load(a_.partial_sum + from));
      device::store(device::shared(s_.largest[c][head_]), device::load(a_.partial_largest + from));
    }
  }

  // All threads: the weights of every fold and the factors are in shared memory afterwards; lse and
  // max_logit are written where this block is to. first_head: of the token's.
  MLACHECK_DEVICE_FN void fold_states(std::uint32_t token, std::int32_t first_head, bool writes) {
    device::sync_block();
    weigh();
    device::sync_block();
    finish(token, first_head, writes);
    device::sync_block();
  }

 private:
  MLACHECK_DEVICE_FN void weigh() {
    for (std::int32_t c = first_; c < chunks_; c += kStep) {
      HeadState before{kMinusInfinity, 0, 0};
      for (std::int32_t i = 0; i < c; ++i)
        before.max = device::maximum(before.max, device::load(device::shared(s_.max[i][head_])));
      const HeadState chunk{device::load(device::shared(s_.max[c][head_])), 0, 0};
      device::store(device::shared(s_.weights[c][head_]), fold(before, chunk));
    }
  }

  // The first thread of each head.
  MLACHECK_DEVICE_FN void finish(std::uint32_t token, std::int32_t first_head, bool writes) {
    const std::int32_t head = first_head + head_;
    if (first_ != 0 || head >= a_.heads) return;
    HeadState state = state_of(0);
    for (std::int32_t c = 1; c < chunks_; ++c) {
      const HeadState later = state_of(c);
      const FoldWeights weights = device::load(device::shared(s_.weights[c][head_]));
      state.sum = fold(weights, state.sum, later.sum);
      state.max = device::maximum(state.max, later.max);
      state.largest = device::maximum(state.largest, later.largest);
    }
    if (writes) write_head(a_, token, head, state);
    device::store(device::shared(s_.factor[head_]), output_factor(a_, head, state));
  }

  MLACHECK_DEVICE_FN HeadState state_of(std::int32_t c) const {
    return {device::load(device::shared(s_.max[c][head_])),
            device::load(device::shared(s_.sum[c][head_])),
            device::load(device::shared(s_.largest[c][head_]))};
  }

  const SparseAttentionArguments& a_;
  K::Shared& s_;
  std::int32_t chunks_;
  std::int32_t head_;
  std::int32_t first_;
  std::int64_t at_;
};

template <device::Element E, int kGroupHeads>
MLACHECK_KERNEL(SparseAttentionCombine::kThreads, 2)
sparse_attention_combine(const SparseAttentionArguments arguments) {
  using K = SparseAttentionCombine;
  constexpr std::int64_t kFragments = kGroupHeads * kVDim / 4;  // of a chunk
  constexpr std::int32_t kHeadTiles = kGroupHeads / K::kHeads;
  const SparseAttentionArguments& a = arguments;
  K::Shared& s = device::shared_memory<K::Shared>();
  const std::uint32_t row = device::block_index();
  const auto block = static_cast<std::int32_t>(device::block_index_y());
  const auto thread = static_cast<std::int32_t>(device::thread_index());
  const std::uint32_t token = a.head_groups.quotient(row);
  const std::uint32_t group = row - token * a.head_groups.divisor();
  const std::int32_t chunks = row_chunks(a, row_length(a, token));
  const std::int32_t head_tile = block % kHeadTiles;
  const std::int32_t first_head =
      static_cast<std::int32_t>(group) * kGroupHeads + head_tile * K::kHeads;
  const std::int32_t quad = thread % 32 / 4;
  CombineHeads<kGroupHeads> heads(a, s, row, head_tile * K::kHeads, chunks);

  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  heads.load();
  MLACHECK_ROLLED
  for (std::int32_t part = block / kHeadTiles; part < K::kParts; part += a.combine_blocks) {
    const auto* partial = reinterpret_cast<const device::Floats4*>(a.partial_out) +
                          std::int64_t{row} * a.chunks.divisor() * kFragments +
                          (part * kHeadTiles + head_tile) * K::kThreads + thread;
    // The first chunks' fragments are on their way while the weights are computed.
    device::Floats4 ahead[K::kAhead];
    MLACHECK_UNROLL
    for (std::int32_t c = 0; c < K::kAhead; ++c)
      if (c < chunks) ahead[c] = device::load(partial + c * kFragments);
    if (part == block / kHeadTiles) heads.fold_states(token, first_head, part == 0);

    device::Floats4 out = ahead[0];
    const auto fold_chunk = [&](std::int32_t c, const device::Floats4& later) {
      const FoldWeights low = device::load(device::shared(s.weights[c][quad]));
      const FoldWeights high = device::load(device::shared(s.weights[c][quad + 8]));
      MLACHECK_UNROLL
      for (int i = 0; i < 4; ++i)
        out.value[i] = fold(i < 2 ? low : high, out.value[i], later.value[i]);
    };
    MLACHECK_UNROLL
    for (std::int32_t c = 1; c < K::kAhead; ++c)
      if (c < chunks) fold_chunk(c, ahead[c]);
    MLACHECK_ROLLED
    for (std::int32_t c = K::kAhead; c < chunks; ++c)
      fold_chunk(c, device::load(partial + c * kFragments));
    MLACHECK_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::int32_t head = first_head + quad + 8 * i;
      if (head >= a.heads) continue;
      const float factor = device::load(device::shared(s.factor[quad + 8 * i]));
      write_out<E>(a, token, head, part * 64 + thread / 32 * 8 + thread % 4 * 2,
                   normalised(out.value[2 * i], factor), normalised(out.value[2 * i + 1], factor));
    }
  }
}

}  // namespace mlacheck::kernels
