#include "cuda/plugin/kernel_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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

CallHeader lay_out(const mlacheck_problem& problem, std::span<const KernelCall::Input> inputs,
                   std::span<const KernelCall::Output> outputs) {
  CallHeader layout = {};
  layout.problem = problem;
  std::uint64_t end = aligned(sizeof(CallHeader));
  const auto place = [&](CallTensor tensor, std::size_t bytes) {
    layout.pieces[static_cast<std::size_t>(tensor)] = {end + kGuardBytes, bytes};
    end += kGuardBytes + aligned(bytes) + kGuardBytes;
  };
  for (const KernelCall::Input& input : inputs) place(input.tensor, input.bytes.size());
  for (const KernelCall::Output& output : outputs) place(output.tensor, output.bytes);
  return layout;
}

// Bytes of the block.
std::size_t end_of(const CallHeader& layout) {
  std::size_t end = aligned(sizeof(CallHeader));
  for (const CallHeader::Piece& piece : layout.pieces)
    if (piece.offset != 0)
      end = std::max<std::size_t>(end, piece.offset + aligned(piece.bytes) + kGuardBytes);
  return end;
}

bool same(const auto& a, const auto& b) {
  return std::ranges::equal(std::as_bytes(std::span(&a, 1)), std::as_bytes(std::span(&b, 1)));
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
                       std::span<const Output> outputs)
    : layout_(lay_out(problem, inputs, outputs)), memory_(end_of(layout_), "a kernel call") {
  std::ranges::fill(memory_.bytes(), kGuardByte);
  std::memcpy(block(), &layout_, sizeof(layout_));
  for (const Input& input : inputs) {
    const std::size_t i = static_cast<std::size_t>(input.tensor);
    std::copy(input.bytes.begin(), input.bytes.end(), block() + layout_.pieces[i].offset);
    input_hashes_[i] = hash_of_inputs(input.tensor);
  }
  for (const Output& output : outputs) {
    std::byte* start = block() + layout_.pieces[static_cast<std::size_t>(output.tensor)].offset;
    std::fill(start, start + output.bytes, poison(output.tensor));
  }
}

std::string KernelCall::message() const {
  const char* text = shared().message;
  return {text, strnlen(text, sizeof(CallHeader::message))};
}

std::span<const std::byte> KernelCall::tensor(CallTensor tensor) const {
  const CallHeader::Piece& piece = layout_.pieces[static_cast<std::size_t>(tensor)];
  return {block() + piece.offset, piece.bytes};
}

std::uint64_t KernelCall::hash_of_inputs(CallTensor name) const {
  const std::span<const std::byte> bytes = tensor(name);
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::vector<std::string> KernelCall::trespasses() const {
  std::vector<std::string> found;
  if (!same(shared().problem, layout_.problem) || !same(shared().pieces, layout_.pieces))
    found.push_back("changed the problem");
  for (std::size_t i = 0; i < kCallTensors; ++i) {
    const auto name = static_cast<CallTensor>(i);
    const CallHeader::Piece& piece = layout_.pieces[i];
    if (piece.offset == 0) continue;
    const std::byte* start = block() + piece.offset;
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
