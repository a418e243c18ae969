#pragma once

#include "cuda/device/barrier.h"
#include "cuda/kernels/index_scores_arguments.h"

namespace mlacheck::kernels {

// Heads are taken 16 at a time: a unit, as two halves of 8 that lie half the banks of shared memory
// apart, so that the 16-byte loads of a fragment's lanes do not conflict.
inline constexpr int kUnitHeads = 16;
inline constexpr int kStageHeads = 2 * kUnitHeads;
inline constexpr unsigned kHeadWords = kIndexRowBytes / sizeof(device::Words4);
static_assert(8 * kIndexRowBytes <= device::kZeroBytes);

// What a warp knows of a row of its item.
struct alignas(16) IndexRow {
  std::uint32_t begin, end;  // of the row's keys
  std::int32_t request;
  std::uint32_t reaches;  // keys of the block: bit 0; the warp's: bit 1
};

struct IndexScoresShared {
  static constexpr unsigned kStages = 4;
  device::Words4 queries[kStages][2][2][8 * kHeadWords + 4];  // unit, half: 33,792 bytes
  IndexRow rows[2][kMostIndexWarps][kMostItemRows];           // of an item and the next: 8,192
  device::Barrier arrived[kStages];
  device::Barrier consumed[kStages];
};
static_assert(2 * (sizeof(IndexScoresShared) + 1024) <= 102'400);  // two blocks on an SM of SM120

MLACHECK_DEVICE_FN void initialise_barriers(IndexScoresShared& s, unsigned warps) {
  MLACHECK_UNROLL
  for (unsigned i = 0; i < IndexScoresShared::kStages; ++i) {
    device::initialise_for_warps(device::shared(s.arrived[i]), 1);
    device::initialise_for_warps(device::shared(s.consumed[i]), warps);
  }
  device::publish_barriers();
}

// The ring through which a block's warps see the queries of its items: the rows of an item that have
// keys in its block, two units of heads a stage. The warps, a power of two, take turns at filling a
// stage, up to the end of the next item: a copy that waits behind the loads of keys comes late. Heads
// past the last are zeros.
class IndexQueries {
  using S = IndexScoresShared;
  // Stages ahead of the one in use. A stage is filled two after it was last used, or the warps would
  // wait for the slowest at each.
  static constexpr unsigned kAhead = S::kStages - 2;

 public:
  MLACHECK_DEVICE_FN IndexQueries(const IndexScoresArguments& arguments, S& shared, unsigned warp,
                                  unsigned lane)
      : a_(arguments), s_(shared), warp_(warp), lane_(lane) {}

  // What comes next: of the rows from first_row on those in `active`. Called at the start of the item
  // before.
  MLACHECK_DEVICE_FN void add(std::uint32_t first_row, std::uint32_t active) {
    if (active_ == 0) advance();
    next_row_ = first_row;
    next_active_ = active;
  }
  // Fills stages ahead of the one in use.
  MLACHECK_DEVICE_FN void fill_ahead() {
    MLACHECK_ROLLED
    while ((active_ | next_active_) != 0 && written_ <= read_ + kAhead) fill_next();
  }

  // The next stage: 32 heads of a row, in order, or its last.
  MLACHECK_DEVICE_FN void acquire() {
    fill_ahead();
    device::wait(device::shared(s_.arrived[read_ % S::kStages]), read_ / S::kStages % 2);
  }
  // 16 bytes of a head of the stage in use: of the unit from `first` on, in the half, the word.
  MLACHECK_DEVICE_FN device::Words4 words(std::int32_t first, unsigned half, unsigned word) const {
    return device::load(device::shared(
        s_.queries[read_ % S::kStages][first % kStageHeads == 0 ? 0 : 1][half][word]));
  }
  MLACHECK_DEVICE_FN void release() {
    device::arrive_warp(device::shared(s_.consumed[read_ % S::kStages]));
    ++read_;
  }

 private:
  MLACHECK_DEVICE_FN void advance() {
    row_ = next_row_;
    active_ = next_active_;
    next_active_ = 0;
  }

  MLACHECK_DEVICE_FN void fill_next() {
    if (active_ == 0) advance();
    MLACHECK_ROLLED
    for (; (active_ & 1) == 0; active_ >>= 1) ++row_;
    if ((written_ & (a_.warps - 1)) == warp_) fill();
    ++written_;
    head_ += kStageHeads;
    if (head_ < a_.heads) return;
    head_ = 0;
    active_ &= ~1u;
  }

  MLACHECK_DEVICE_FN void fill() {
    const unsigned place = written_ % S::kStages;
    device::wait(device::shared(s_.consumed[place]), written_ / S::kStages % 2 ^ 1);
    const device::SharedPointer<device::Barrier> arrived = device::shared(s_.arrived[place]);
    const unsigned heads = a_.heads - head_ > kUnitHeads ? kStageHeads : kUnitHeads;
    device::arrive_warp_expecting(arrived, heads * kIndexRowBytes);
    const unsigned piece = a_.piece_heads, first = lane_ * piece;
    if (first >= heads) return;
    const device::SharedPointer<std::byte> to =
        device::shared(s_.queries[place][first / 16][first / 8 % 2][first % 8 * kHeadWords])
            .as<std::byte>();
    const std::int32_t head = head_ + static_cast<std::int32_t>(first), left = a_.heads - head;
    const unsigned present = left <= 0                                 ? 0
                             : left < static_cast<std::int32_t>(piece) ? static_cast<unsigned>(left)
                                                                       : piece;
    if (present > 0)
      device::copy_bulk(to, a_.q + row_ * a_.q_token_stride + head * a_.q_head_stride,
                        present * kIndexRowBytes, arrived);
    if (present < piece)
      device::copy_bulk(to + present * kIndexRowBytes, device::zeros(),
                        (piece - present) * kIndexRowBytes, arrived);
  }

  const IndexScoresArguments& a_;
  S& s_;
  unsigned warp_;
  unsigned lane_;
  unsigned read_ = 0, written_ = 0;               // stages
  std::uint32_t row_ = 0;                         // of the next stage
  std::uint32_t active_ = 0;                      // bit i: row_ + i is to come
  std::uint32_t next_row_ = 0, next_active_ = 0;  // of the item after
  std::int32_t head_ = 0;                         // of the next stage, its first
};

}  // namespace mlacheck::kernels
