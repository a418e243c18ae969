#pragma once

#include <type_traits>

#include "cuda/device/barrier.h"
#include "cuda/device/warp.h"
#include "cuda/kernels/ring_position.h"
#include "cuda/kernels/sparse_attention_arguments.h"

namespace mlacheck::kernels {

static_assert(kRowBytes <= device::kZeroBytes);

MLACHECK_DEVICE_FN const std::byte* row_address(const SparseAttentionArguments& a,
                                                std::uint32_t slot) {
  const std::uint32_t page = a.page_size.quotient(slot);
  return a.kv + std::int64_t{page} * a.page_stride +
         std::int64_t{slot - page * a.page_size.divisor()} * a.row_stride;
}

// The gather: kWarps warps copy the rows of every tile of the block's items, in order, into the
// ring of tiles in shared memory; a lane copies a row. An absent entry, and one past the end of the
// row, becomes a row of zeros and a 0 in the mask, so nothing of it can reach a result. Of
// `Shared`:
//
//   rows[stage][row]       kRowPitch bytes each
//   masks[stage][warp]     bit i: row i of the warp's rows is present
//   rows_arrived[stage]    counts one arrival a warp, and the bytes
//   rows_consumed[stage]   the readers' arrivals
template <class Shared, unsigned kWarps>
class Gather {
  static constexpr unsigned kRows = kTileRows / kWarps;  // of a tile, a warp
  static constexpr unsigned kStages = std::extent_v<decltype(Shared::rows)>;

 public:
  MLACHECK_DEVICE_FN Gather(const SparseAttentionArguments& arguments, Shared& shared,
                            unsigned warp)
      : a_(arguments),
        s_(shared),
        warp_(warp),
        lane_(device::lane_index()),
        row_(warp * kRows + lane_ % kRows) {}

  // A row's index is loaded one tile ahead: the load takes longer than the copy of a tile.
  MLACHECK_DEVICE_FN void run() {
    std::int32_t slot = -1;
    bool pending = false;
    for_each_item(a_, [&](const Item& item) {
      const std::int32_t* indices = a_.indices + std::int64_t{item.token} * a_.index_stride;
      MLACHECK_ROLLED
      for (std::int32_t tile = item.begin; tile < item.end; tile += kTileRows) {
        const std::int32_t entry = tile + static_cast<std::int32_t>(row_);
        const std::int32_t next = entry < item.end ? device::load(indices + entry) : -1;
        if (pending) copy(slot);
        slot = next;
        pending = true;
      }
    });
    if (pending) copy(slot);
  }

 private:
  MLACHECK_DEVICE_FN void copy(std::int32_t slot) {
    const unsigned stage = place_.place;
    const bool present = static_cast<std::uint32_t>(slot) < a_.slots;
    const unsigned mask = device::ballot(present);
    // Before the wait, which it would prolong.
    const std::byte* from =
        present ? row_address(a_, static_cast<std::uint32_t>(slot)) : device::zeros();
    device::wait(device::shared(s_.rows_consumed[stage]), place_.parity ^ 1);
    if (lane_ == 0)
      device::store(device::shared(s_.masks[stage][warp_]),
                    static_cast<std::uint8_t>(mask & ((1u << kRows) - 1)));
    device::arrive_warp_expecting(device::shared(s_.rows_arrived[stage]), kRows * kRowBytes);
    if (lane_ < kRows)
      device::copy_bulk(device::shared(s_.rows[stage][row_][0]), from, kRowBytes,
                        device::shared(s_.rows_arrived[stage]));
    place_.advance();
  }

  const SparseAttentionArguments& a_;
  Shared& s_;
  unsigned warp_;
  unsigned lane_;
  unsigned row_;
  RingPosition<kStages> place_;
};

}  // namespace mlacheck::kernels
