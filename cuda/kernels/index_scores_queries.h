#pragma once

#include "cuda/device/barrier.h"
#include "cuda/device/thread.h"
#include "cuda/kernels/index_scores_arguments.h"
#include "cuda/kernels/ring_position.h"

namespace mlacheck::kernels {

// Heads are taken 16 at a time: a unit, as two halves of 8 that lie half the banks of shared memory
// apart, so that the 16-byte loads of a fragment's lanes do not conflict.
inline constexpr int kUnitHeads = 16;
inline constexpr int kStageHeads = 2 * kUnitHeads;
inline constexpr unsigned kHeadWords = kIndexRowBytes / sizeof(device::Words4);
inline constexpr unsigned kHalfWords = 8 * kHeadWords + 4;
static_assert(8 * kIndexRowBytes <= device::kZeroBytes);

struct IndexScoresShared {
  static constexpr unsigned kStages = 8;
  static constexpr bool kMayStay = false;
  static constexpr int kUnits = 1, kHalves = 1;
  device::Words4 queries[kStages][2][2 * kHalfWords];  // of each unit: 67,584 bytes
  device::Floats4 weights[kStages][4][2];              // [t][unit]: of heads t + 4 i
  IndexRow rows[kMostIndexWarps][kMostItemRows];       // of each warp's item: 8,192
  device::Barrier arrived[kStages];
  device::Barrier consumed[kStages];
};
static_assert(sizeof(IndexScoresShared) <= device::kSharedMemoryLimit);

// Those of the queries; publish_barriers comes after it.
template <class Shared>
MLACHECK_DEVICE_FN void initialise_barriers(Shared& s, unsigned warps) {
  MLACHECK_UNROLL
  for (unsigned i = 0; i < Shared::kStages; ++i) {
    device::initialise_for_warps(device::shared(s.arrived[i]), 1);
    device::initialise_for_warps(device::shared(s.consumed[i]), warps);
  }
}

// Whether the queries, of a single row, all have a stage: then they come once and stay.
template <class Shared>
MLACHECK_DEVICE_FN bool queries_stay(const IndexScoresArguments& a, const Shared& /*shared*/) {
  return a.tokens == 1 && a.heads <= static_cast<std::int32_t>(Shared::kStages) * kStageHeads;
}

// The warp that feeds the others: it copies the queries of the block's items into the ring, 32
// heads a stage with their weights, of the rows that have keys in the item's block. It runs ahead
// of them into the next items, or its copies would wait behind their loads of keys. Heads past the
// last are zeros.
template <class S>
class IndexQueries {
 public:
  MLACHECK_DEVICE_FN IndexQueries(const IndexScoresArguments& arguments, S& shared)
      : a_(arguments), s_(shared), lane_(device::lane_index()) {}

  MLACHECK_DEVICE_FN void run() {
    if (S::kMayStay && queries_stay(a_, s_)) return fill_row(0);
    MLACHECK_ROLLED
    for (std::uint32_t i = device::block_index(); i < a_.items; i += device::grid_blocks()) {
      const IndexItem item(a_, i);
      const IndexRow mine = index_row(a_, item, lane_);
      const std::uint32_t active =
          device::ballot(mine.reaches(item.first_key, a_.warps * kKeysOfWarp));
      MLACHECK_ROLLED
      for (std::uint32_t r = 0; r < item.rows; ++r)
        if ((active >> r & 1) != 0) fill_row(item.first_row + r);
    }
  }

 private:
  MLACHECK_DEVICE_FN void fill_row(std::uint32_t row) {
    MLACHECK_ROLLED
    for (std::int32_t head = 0; head < a_.heads; head += kStageHeads) fill(row, head);
  }
  MLACHECK_DEVICE_FN void fill(std::uint32_t row, std::int32_t stage_head) {
    const std::int32_t own = stage_head + static_cast<std::int32_t>(lane_);
    const float weight =
        own < a_.heads ? device::load(a_.weights + std::int64_t{row} * a_.heads + own) : 0.0f;
    const unsigned place = write_.place;
    const device::SharedPointer<device::Barrier> arrived = device::shared(s_.arrived[place]);
    device::wait(device::shared(s_.consumed[place]), write_.parity ^ 1);
    const unsigned piece = a_.piece_heads, first = lane_ * piece;
    if (first < kStageHeads) {
      const device::SharedPointer<std::byte> to =
          device::shared(
              s_.queries[place][first / 16][first / 8 % 2 * kHalfWords + first % 8 * kHeadWords])
              .template as<std::byte>();
      const std::int32_t head = stage_head + static_cast<std::int32_t>(first);
      const std::int32_t left = a_.heads - head;
      const unsigned present = left <= 0 ? 0
                               : left < static_cast<std::int32_t>(piece)
                                   ? static_cast<unsigned>(left)
                                   : piece;
      if (present > 0)
        device::copy_bulk(to, a_.q + row * a_.q_token_stride + head * a_.q_head_stride,
                          present * kIndexRowBytes, arrived);
      if (present < piece)
        device::copy_bulk(to + present * kIndexRowBytes, device::zeros(),
                          (piece - present) * kIndexRowBytes, arrived);
    }
    device::store(device::shared(s_.weights[place][lane_ % 4][lane_ / 16].value[lane_ / 4 % 4]),
                  weight);
    device::sync_warp();
    device::arrive_warp_expecting(arrived, kStageHeads * kIndexRowBytes);
    write_.advance();
  }

  const IndexScoresArguments& a_;
  S& s_;
  unsigned lane_;
  RingPosition<S::kStages> write_;
};

}  // namespace mlacheck::kernels
