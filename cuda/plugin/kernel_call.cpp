#include "cuda/plugin/kernel_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mlacheck {

namespace {

constexpr std::byte kGuardByte{0xdb};

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

std::byte poison(CallTensor tensor) {
  const bool integers = tensor == CallTensor::selected || tensor == CallTensor::slots;
  return integers ? std::byte{0xa5} : kPoison;
}

bool untouched(const std::byte* from, const std::byte* to) {
  return std::all_of(from, to, [](std::byte b) { return b == kGuardByte; });
}

}  // namespace

std::string_view tensor_name(CallTensor tensor) {
  static constexpr std::string_view kNames[kCallTensors] = {
      "q",           "cache",   "indices",     "topk_length", "attn_sink", "weights",
      "block_table", "request", "range_begin", "range_end",   "scores_in", "positions",
      "out",         "lse",     "max_logit",   "scores_out",  "selected",  "slots"};
  return kNames[static_cast<std::size_t>(tensor)];
}

KernelCall::KernelCall(const mlacheck_problem& problem, std::span<const Input> inputs,
                       std::span<const Output> outputs) {
  layout_.problem = problem;
  bytes_ = aligned(sizeof(CallHeader));
  const auto place = [&](CallTensor tensor, std::size_t bytes) {
    bytes_ += kGuardBytes;
    layout_.pieces[static_cast<std::size_t>(tensor)] = {bytes_, bytes};
    bytes_ += aligned(bytes) + kGuardBytes;
  };
  for (const Input& input : inputs) place(input.tensor, input.bytes.size());
  for (const Output& output : outputs) place(output.tensor, output.bytes);

  file_descriptor_ = memfd_create("mlacheck-call", MFD_CLOEXEC);
  // Reserved now: a page that is missing later would be a SIGBUS.
  int error = file_descriptor_ < 0
                  ? errno
                  : posix_fallocate(file_descriptor_, 0, static_cast<off_t>(bytes_));
  void* block = MAP_FAILED;
  if (error == 0) {
    block = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_descriptor_, 0);
    if (block == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    release();
    throw std::system_error(error, std::generic_category(),
                            fmt::format("shared memory of {} bytes for a kernel call", bytes_));
  }
  block_ = static_cast<std::byte*>(block);

  std::fill(block_, block_ + bytes_, kGuardByte);
  std::memcpy(block_, &layout_, sizeof(layout_));
  for (const Input& input : inputs) {
    const std::size_t i = static_cast<std::size_t>(input.tensor);
    std::copy(input.bytes.begin(), input.bytes.end(), block_ + layout_.pieces[i].offset);
    input_hashes_[i] = hash_of_inputs(input.tensor);
  }
  for (const Output& output : outputs) {
    std::byte* start = block_ + layout_.pieces[static_cast<std::size_t>(output.tensor)].offset;
    std::fill(start, start + output.bytes, poison(output.tensor));
  }
}

KernelCall::~KernelCall() { release(); }

void KernelCall::release() {
  if (block_ != nullptr) munmap(block_, bytes_);
  if (file_descriptor_ >= 0) close(file_descriptor_);
}

std::string KernelCall::message() const {
  const char* text = shared().message;
  return {text, strnlen(text, sizeof(CallHeader::message))};
}

std::span<const std::byte> KernelCall::tensor(CallTensor tensor) const {
  const CallHeader::Piece& piece = layout_.pieces[static_cast<std::size_t>(tensor)];
  return {block_ + piece.offset, piece.bytes};
}

std::uint64_t KernelCall::hash_of_inputs(CallTensor name) const {
  const std::span<const std::byte> bytes = tensor(name);
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::vector<std::string> KernelCall::trespasses() const {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < kCallTensors; ++i) {
    const auto name = static_cast<CallTensor>(i);
    const CallHeader::Piece& piece = layout_.pieces[i];
    if (piece.offset == 0) continue;
    const std::byte* start = block_ + piece.offset;
    if (!untouched(start - kGuardBytes, start))
      found.push_back(fmt::format("wrote before {}", tensor_name(name)));
    if (!untouched(start + piece.bytes, start + aligned(piece.bytes) + kGuardBytes))
      found.push_back(fmt::format("wrote past the end of {}", tensor_name(name)));
    if (!is_output(name) && hash_of_inputs(name) != input_hashes_[i])
      found.push_back(fmt::format("changed its input {}", tensor_name(name)));
  }
  return found;
}

}  // namespace mlacheck
