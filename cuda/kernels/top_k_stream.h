#pragma once

#include <type_traits>

#include "cuda/device/barrier.h"
#include "cuda/device/warp.h"
#include "cuda/kernels/top_k_row.h"

namespace mlacheck::kernels {

// How top_k_long_rows goes over a row: the first warps stream it through shared memory, tile by
// tile, each on its own, and list what reaches a threshold in whatever order they come to it; the
// others see to what is left of it. Copies run ahead while a threshold is guessed and while warps
// list, which loads into registers did not.
struct TopKStream {
  static constexpr unsigned kWarps = 16;   // that stream
  static constexpr unsigned kStages = 2;   // tiles of a warp on their way
  static constexpr unsigned kVectors = 3;  // of a tile, a lane
  static constexpr unsigned kTileVectors = kVectors * device::kWarpSize;
  static constexpr std::uint32_t kCapacity = 7040;       // that can be listed
  static constexpr std::uint32_t kMostSelected = 2048;   // so that a guess can be wrong either way
  static constexpr std::uint32_t kMostLength = 131'072;  // a bit of shared memory for each place
  static constexpr std::uint32_t kMostFew = 64;          // that are ranked one by one

  struct Shared {
    TopK::Scratch scratch;  // at the same place as in TopK::Shared
    std::uint32_t listed;   // candidates, also those past kCapacity
    device::Words2 few[kMostFew];
    device::Barrier arrived[kWarps][kStages];
    alignas(128) device::Floats4 tiles[kWarps][kStages][kTileVectors];
    alignas(16) std::uint32_t list[kCapacity];  // StreamList
    alignas(16) std::uint16_t more_of_list[kCapacity];
  };
  static_assert(sizeof(Shared) <= device::kSharedMemoryLimit);
  static_assert(std::is_standard_layout_v<Shared> && std::is_standard_layout_v<TopK::Shared>);
};

// The tiles of a row that its warps take in turn, as many each; what stands before them in the row
// and behind them is the rest.
class RowStream {
  using K = TopKStream;
  static constexpr unsigned kTileBytes = K::kTileVectors * sizeof(device::Floats4);
  static constexpr unsigned kOfRound = K::kWarps * K::kTileVectors;  // vectors

 public:
  // The block must meet after it.
  MLACHECK_DEVICE_FN explicit RowStream(K::Shared& shared)
      : shared_(shared), lane_(device::lane_index()), warp_(device::warp_index()) {
    if (!streams() || lane_ != 0) return;
    MLACHECK_UNROLL
    for (unsigned stage = 0; stage < K::kStages; ++stage)
      device::initialise_for_warps(device::shared(shared_.arrived[warp_][stage]), 1);
    device::publish_barriers();
  }

  MLACHECK_DEVICE_FN bool streams() const { return warp_ < K::kWarps; }
  MLACHECK_DEVICE_FN unsigned lane() const { return lane_; }

  // Sends for the warp's first tiles.
  MLACHECK_DEVICE_FN void start(const TopKRow& row) {
    const std::uint32_t begin = row.whole_begin(), end = row.whole_end();
    rounds_ = end > begin ? (end - begin) / kOfRound : 0;
    if (!streams()) return;
    next_ = row.origin + 4 * (row.whole_begin() + warp_ * K::kTileVectors);
    sent_ = 0;
    MLACHECK_UNROLL
    for (unsigned stage = 0; stage < K::kStages; ++stage) send(stage);
  }

  // Calls visit(tile's first vector, its scores in shared memory) for each tile of the warp.
  template <class Visit>
  MLACHECK_DEVICE_FN void each_tile(const TopKRow& row, Visit visit) {
    std::uint32_t first = row.whole_begin() + warp_ * K::kTileVectors;
    MLACHECK_ROLLED
    for (std::uint32_t round = 0; round < rounds_;) {
      MLACHECK_UNROLL
      for (unsigned stage = 0; stage < K::kStages; ++stage) {
        device::wait(device::shared(shared_.arrived[warp_][stage]), parity_[stage]);
        parity_[stage] ^= 1;
        visit(first, device::shared(shared_.tiles[warp_][stage][0]).template as<float>());
        device::sync_warp();
        send(stage);
        first += kOfRound;
        if (++round == rounds_) break;
      }
    }
  }

  // Calls visit(number of the vector) for each vector of the rest, by one thread.
  template <class Visit>
  MLACHECK_DEVICE_FN void each_of_rest(const TopKRow& row, Visit visit) const {
    constexpr unsigned kStreaming = K::kWarps * device::kWarpSize;
    MLACHECK_ROLLED
    for (std::uint32_t i = device::thread_index() - kStreaming;; i += TopK::kThreads - kStreaming) {
      const std::uint32_t number = i < row.whole_begin() ? i : i + rounds_ * kOfRound;
      if (number >= row.vectors) break;
      visit(number);
    }
  }

 private:
  MLACHECK_DEVICE_FN void send(unsigned stage) {
    if (sent_ < rounds_) {
      const auto arrived = device::shared(shared_.arrived[warp_][stage]);
      device::arrive_warp_expecting(arrived, kTileBytes);
      if (lane_ == 0)
        device::copy_bulk_once(
            device::shared(shared_.tiles[warp_][stage][0]).template as<std::byte>(), next_,
            kTileBytes, arrived);
    }
    next_ += 4 * kOfRound;
    ++sent_;
  }

  K::Shared& shared_;
  unsigned lane_, warp_;
  const float* next_ = nullptr;
  std::uint32_t rounds_ = 0, sent_ = 0;
  unsigned parity_[K::kStages] = {};
};

}  // namespace mlacheck::kernels
