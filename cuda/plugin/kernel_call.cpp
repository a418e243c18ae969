#include "cuda/plugin/kernel_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mlacheck {

namespace {

constexpr std::byte kGuardByte{0xdb};

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

CallHeader lay_out(const mlacheck_problem& problem, std::span<const KernelCall::Input> inputs,
                   std::span<const KernelCall::Output> outputs, const CallSeries& series) {
  CallHeader layout = {};
  layout.problem = problem;
  layout.calls = series.calls;
  std::uint64_t end = aligned(sizeof(CallHeader));
  if (series.calls < 1)
    throw std::invalid_argument(fmt::format("a kernel call: {} calls, at least 1", series.calls));
  const auto calls = static_cast<std::size_t>(series.calls);
  const auto place = [&](CallTensor tensor, std::size_t bytes) {
    const std::size_t parts = is_shared(tensor) ? 1 : calls;
    if (bytes % parts != 0)
      throw std::invalid_argument(fmt::format("a kernel call: {} of {} bytes for {} calls",
                                              tensor_name(tensor), bytes, parts));
    const bool one_each =
        calls > 1 && (parts > 1 || (tensor == CallTensor::cache && series.own_caches));
    const std::size_t stride = kGuardBytes + aligned(bytes / parts) + kGuardBytes;
    layout.pieces[static_cast<std::size_t>(tensor)] = {end + kGuardBytes, bytes / parts,
                                                       one_each ? stride : 0};
    end += (one_each ? calls : 1) * stride;
  };
  for (const KernelCall::Input& input : inputs) place(input.tensor, input.bytes.size());
  for (const KernelCall::Output& output : outputs) place(output.tensor, output.bytes);
  layout.bytes = end;
  return layout;
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

std::byte poison_of(CallTensor tensor) {
  const bool integers = tensor == CallTensor::selected || tensor == CallTensor::slots;
  return integers ? kIntegerPoison : kPoison;
}

KernelCall::KernelCall(const mlacheck_problem& problem, std::span<const Input> inputs,
                       std::span<const Output> outputs, const CallSeries& series)
    : layout_(lay_out(problem, inputs, outputs, series)),
      parts_(block_parts(layout_)),
      memory_(parts_, "a kernel call") {
  for (const BlockPart& part : parts_)
    std::fill(block() + part.begin, block() + part.end, kGuardByte);
  std::memcpy(block(), &layout_, sizeof(layout_));
  const auto copy_of = [&](CallTensor tensor, std::int32_t call) {
    const CallHeader::Piece& p = piece(tensor);
    return std::span(block() + p.offset + static_cast<std::size_t>(call) * p.stride, p.bytes);
  };
  for (const Input& input : inputs) {
    for (std::int32_t call = 0; call < copies(input.tensor); ++call) {
      const std::span<std::byte> to = copy_of(input.tensor, call);
      const std::size_t from = is_shared(input.tensor) ? 0 : static_cast<std::size_t>(call);
      const std::byte* bytes = input.bytes.data() + from * to.size();
      for (const BlockPart& part : parts_of(input.tensor))
        std::copy(bytes + part.begin, bytes + part.end, to.data() + part.begin);
    }
    input_hashes_[static_cast<std::size_t>(input.tensor)] = hash_of_inputs(input.tensor);
  }
  for (const Output& output : outputs)
    for (std::int32_t call = 0; call < copies(output.tensor); ++call)
      std::ranges::fill(copy_of(output.tensor, call), poison_of(output.tensor));
}

std::span<const std::byte> KernelCall::tensor(CallTensor tensor, std::int32_t call) const {
  const CallHeader::Piece& p = piece(tensor);
  return {block() + p.offset + static_cast<std::size_t>(call) * p.stride, p.bytes};
}

std::vector<BlockPart> KernelCall::parts_of(CallTensor name) const {
  const std::uint64_t bytes = piece(name).bytes;
  if (name != CallTensor::cache) return {{0, bytes}};
  return cache_parts(layout_.problem, bytes);
}

std::uint64_t KernelCall::hash_of_inputs(CallTensor name) const {
  std::uint64_t hash = 0;
  const std::vector<BlockPart> parts = parts_of(name);
  for (std::int32_t call = 0; call < copies(name); ++call)
    for (const BlockPart& part : parts)
      hash =
          XXH3_64bits_withSeed(tensor(name, call).data() + part.begin, part.end - part.begin, hash);
  return hash;
}

std::vector<std::string> KernelCall::trespasses() const {
  std::vector<std::string> found;
  if (!same(*reinterpret_cast<const CallHeader*>(block()), layout_))
    found.push_back("changed the problem");
  for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
    if (memory_.is_blank(parts_[i].end, parts_[i + 1].begin)) continue;
    found.push_back("wrote between the pages of cache");
    break;
  }
  for (std::size_t i = 0; i < kCallTensors; ++i) {
    if (layout_.pieces[i].offset == 0) continue;
    const auto name = static_cast<CallTensor>(i);
    bool before = false, past = false;
    for (std::int32_t call = 0; call < copies(name); ++call) {
      const std::span<const std::byte> bytes = tensor(name, call);
      const std::byte* start = bytes.data();
      before |= !untouched(start - kGuardBytes, start);
      past |= !untouched(start + bytes.size(), start + aligned(bytes.size()) + kGuardBytes);
    }
    if (before) found.push_back(fmt::format("wrote before {}", tensor_name(name)));
    if (past) found.push_back(fmt::format("wrote past the end of {}", tensor_name(name)));
    if (!is_output(name) && hash_of_inputs(name) != input_hashes_[i])
      found.push_back(fmt::format("changed its input {}", tensor_name(name)));
  }
  return found;
}

}  // namespace mlacheck
