#pragma once

#include "cuda/device/barrier.h"
#include "cuda/kernels/sparse_attention_result.h"

namespace mlacheck::kernels {

// Folds the chunks of a row, in order, into its result: what a block that does all of a row's chunks
// does, operation for operation.
//
// A block takes 16 heads of a token x 64 columns: 256 threads, each one 16-byte fragment of the
// partial results. `kGroupHeads` is that of the kernel that wrote them, and with it their layout:
//   64   [chunk][warp 8][16 heads 4][8 columns 8][lane 32]
//   16   [chunk][warp 4][64 columns 2][8 columns 8][lane 32]
struct SparseAttentionCombine {
  static constexpr int kThreads = 256;
  static constexpr int kHeads = 16;
  static constexpr int kMaxChunks = 64;
  static constexpr unsigned parts(int group_heads) {
    return static_cast<unsigned>(group_heads / kHeads * (kVDim / 64));
  }

  struct Shared {
    float max[kMaxChunks][kHeads];
    FoldWeights weights[kMaxChunks][kHeads];
    float factor[kHeads];
  };
  static_assert(sizeof(Shared) <= 48 * 1024);
};

// The shared part: weights of every chunk; by the first thread of each head its sum and results.
template <int kGroupHeads>
MLACHECK_DEVICE_FN void fold_heads(const SparseAttentionArguments& a,
                                   SparseAttentionCombine::Shared& s, std::uint32_t row,
                                   std::int32_t first_head, std::int32_t chunks, bool writes) {
  constexpr int kHeads = SparseAttentionCombine::kHeads;
  const auto thread = static_cast<std::int32_t>(device::thread_index());
  const std::int32_t h = thread % kHeads;
  const std::uint32_t token = a.head_groups.quotient(row);
  const std::uint32_t group = row - token * a.head_groups.divisor();
  const std::int64_t at = std::int64_t{row} * a.chunks.divisor() * kGroupHeads + first_head + h;
  for (std::int32_t c = thread / kHeads; c < chunks; c += SparseAttentionCombine::kThreads / kHeads)
    device::store(device::shared(s.max[c][h]), device::load(a.partial_max + at + c * kGroupHeads));
  device::sync_block();
  for (std::int32_t c = thread / kHeads; c < chunks;
       c += SparseAttentionCombine::kThreads / kHeads) {
    HeadState before{device::load(device::shared(s.max[0][h])), 0, 0};
    for (std::int32_t i = 1; i < c; ++i)
      before.max = device::maximum(before.max, device::load(device::shared(s.max[i][h])));
    const HeadState chunk{device::load(device::shared(s.max[c][h])), 0, 0};
    device::store(device::shared(s.weights[c][h]), fold(before, chunk));
  }
  if (thread < kHeads) {
    HeadState state{device::load(device::shared(s.max[0][h])), device::load(a.partial_sum + at),
                    device::load(a.partial_largest + at)};
    for (std::int32_t c = 1; c < chunks; ++c)
      fold(state, {device::load(device::shared(s.max[c][h])),
                   device::load(a.partial_sum + at + c * kGroupHeads),
                   device::load(a.partial_largest + at + c * kGroupHeads)});
    const auto head = static_cast<std::int32_t>(group) * kGroupHeads + first_head + h;
    if (head < a.heads) {
      if (writes) write_head(a, token, head, state);
      device::store(device::shared(s.factor[h]), output_factor(a, head, state));
    }
  }
  device::sync_block();
}

template <device::Element E, int kGroupHeads>
MLACHECK_KERNEL(SparseAttentionCombine::kThreads, 1)
sparse_attention_combine(const SparseAttentionArguments arguments) {
  using K = SparseAttentionCombine;
  const SparseAttentionArguments& a = arguments;
  K::Shared& s = device::shared_memory<K::Shared>();
  const std::uint32_t row = device::block_index();
  const auto part = static_cast<std::int32_t>(device::block_index_y());
  const auto thread = static_cast<std::int32_t>(device::thread_index());
  const std::uint32_t token = a.head_groups.quotient(row);
  const std::uint32_t group = row - token * a.head_groups.divisor();
  const std::int32_t length = row_length(a, token);
  const std::int32_t chunks = length <= a.chunk ? 1 : (length + a.chunk - 1) / a.chunk;
  const std::int32_t first_head = kGroupHeads == 64 ? part % 4 * K::kHeads : 0;
  const std::int32_t column =
      (kGroupHeads == 64 ? part / 4 : part) * 64 + thread / 32 * 8 + thread % 4 * 2;

  device::wait_for_previous_kernel();
  fold_heads<kGroupHeads>(a, s, row, first_head, chunks, column / 64 == 0);

  const std::int32_t quad = thread % 32 / 4;
  const auto* partial = reinterpret_cast<const device::Floats4*>(a.partial_out) +
                        std::int64_t{row} * a.chunks.divisor() * (kGroupHeads * kVDim / 4) +
                        part * K::kThreads + thread;
  device::Floats4 out = device::load(partial);
  for (std::int32_t c = 1; c < chunks; ++c) {
    partial += kGroupHeads * kVDim / 4;
    const device::Floats4 later = device::load(partial);
    const FoldWeights low = device::load(device::shared(s.weights[c][quad]));
    const FoldWeights high = device::load(device::shared(s.weights[c][quad + 8]));
    MLACHECK_UNROLL
    for (int i = 0; i < 4; ++i)
      out.value[i] = fold(i < 2 ? low : high, out.value[i], later.value[i]);
  }
  MLACHECK_UNROLL
  for (int i = 0; i < 2; ++i) {
    const std::int32_t head =
        static_cast<std::int32_t>(group) * kGroupHeads + first_head + quad + 8 * i;
    if (head >= a.heads) continue;
    const float factor = device::load(device::shared(s.factor[quad + 8 * i]));
    write_out<E>(a, token, head, column, normalised(out.value[2 * i], factor),
                 normalised(out.value[2 * i + 1], factor));
  }
}

}  // namespace mlacheck::kernels
