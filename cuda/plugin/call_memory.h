#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda/plugin/block_parts.h"
#include "cuda/plugin/device_memory.h"
#include "cuda/plugin/kernel_call.h"

namespace mlacheck {

// What a kernel is given: the call's block and a workspace, poisoned and between guards of its own,
// in the memory that it wants.
class CallMemory {
 public:
  CallMemory(std::span<std::byte> block, std::uint64_t workspace_bytes, bool on_device)
      : block_(block), parts_(block_parts(headers_of(block))), workspace_bytes_(workspace_bytes) {
    if (on_device) {
      device_block_.emplace(block.size());
      device_workspace_.emplace(guarded_bytes());
      reset();
    } else {
      workspace_.assign(guarded_bytes(), kPoison);
    }
    const auto guard_end = reinterpret_cast<std::uintptr_t>(start()) + kGuardBytes;
    offset_ = kGuardBytes + (kTensorAlignment - guard_end % kTensorAlignment) % kTensorAlignment;
  }

  std::byte* block() const { return device_block_ ? device_block_->data() : block_.data(); }
  std::byte* workspace() { return start() + offset_; }
  // Device memory as it was before the first call.
  void reset() {
    for (const BlockPart& part : parts_) device_block_->copy_from(host(part), part.begin);
    device_workspace_->fill(kPoison);
    synchronise_device();
  }
  // Until what was started in device memory has ended.
  void wait() const {
    if (device_block_) synchronise_device();
  }
  // The kernel's outputs and what else it wrote, into the block in host memory, but for the
  // headers.
  void fetch(std::size_t header_bytes) {
    if (!device_block_) return;
    std::vector<std::byte> header(header_bytes);
    std::copy_n(block_.begin(), header.size(), header.begin());
    for (const BlockPart& part : parts_) device_block_->copy_to(host(part), part.begin);
    std::copy(header.begin(), header.end(), block_.begin());
    workspace_.resize(guarded_bytes());
    device_workspace_->copy_to(workspace_);
  }
  bool workspace_overrun() const {
    const std::byte* begin = workspace_.data();
    const auto written = [](std::byte b) { return b != kPoison; };
    return std::any_of(begin, begin + offset_, written) ||
           std::any_of(begin + offset_ + workspace_bytes_, begin + workspace_.size(), written);
  }

 private:
  std::span<std::byte> host(const BlockPart& part) const {
    return block_.subspan(part.begin, part.end - part.begin);
  }
  std::size_t guarded_bytes() const {
    return workspace_bytes_ + 2 * kGuardBytes + kTensorAlignment;
  }
  std::byte* start() { return device_workspace_ ? device_workspace_->data() : workspace_.data(); }

  std::span<std::byte> block_;
  std::vector<BlockPart> parts_;  // of the block
  std::uint64_t workspace_bytes_;
  std::vector<std::byte> workspace_;
  std::size_t offset_ = 0;
  std::optional<DeviceBuffer> device_block_, device_workspace_;
};

}  // namespace mlacheck
