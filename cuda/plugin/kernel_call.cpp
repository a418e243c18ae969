#include "cuda/plugin/kernel_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

bool is_unwritten(std::span<const std::byte> element, CallTensor tensor) {
  return std::ranges::count(element, poison_of(tensor)) == std::ssize(element);
}

std::vector<const CallHeader*> headers_of(std::span<const std::byte> block) {
  const auto at = [&](std::size_t i) {
    return reinterpret_cast<const CallHeader*>(block.data() + i * kHeaderBytes);
  };
  const std::size_t count = std::size_t{at(0)->following} + 1;
  if (count > block.size() / kHeaderBytes)
    throw std::runtime_error(fmt::format("{} stages in a block of {} bytes", count, block.size()));
  std::vector<const CallHeader*> headers;
  for (std::size_t i = 0; i < count; ++i) headers.push_back(at(i));
  return headers;
}

std::vector<KernelCall::Laid> KernelCall::lay_out(std::span<const Stage> stages,
                                                  std::int32_t series) {
  if (series < 1)
    throw std::invalid_argument(fmt::format("a kernel call: {} calls, at least 1", series));
  const auto calls = static_cast<std::size_t>(series);
  std::vector<Laid> laid(stages.size());
  std::uint64_t end = stages.size() * kHeaderBytes;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    CallHeader& layout = laid[i].layout;
    layout.problem = stages[i].problem;
    layout.calls = series;
    layout.following = static_cast<std::uint32_t>(stages.size() - 1 - i);
    const auto place = [&](CallTensor tensor, std::size_t bytes) {
      const std::size_t parts = is_shared(tensor) ? 1 : calls;
      if (bytes % parts != 0)
        throw std::invalid_argument(fmt::format("a kernel call: {} of {} bytes for {} calls",
                                                tensor_name(tensor), bytes, parts));
      const bool one_each =
          calls > 1 && (parts > 1 || (tensor == CallTensor::cache && stages[i].own_caches));
      const std::size_t stride = kGuardBytes + aligned(bytes / parts) + kGuardBytes;
      layout.pieces[static_cast<std::size_t>(tensor)] = {end + kGuardBytes, bytes / parts,
                                                         one_each ? stride : 0};
      end += (one_each ? calls : 1) * stride;
    };
    for (const Input& input : stages[i].inputs) place(input.tensor, input.bytes.size());
    for (const Output& output : stages[i].outputs) place(output.tensor, output.bytes);
    for (const Link& link : stages[i].links) {
      layout.pieces[static_cast<std::size_t>(link.input)] =
          laid.at(link.stage).layout.pieces[static_cast<std::size_t>(link.output)];
      laid[i].is_linked[static_cast<std::size_t>(link.input)] = true;
    }
  }
  for (Laid& stage : laid) stage.layout.bytes = end;
  return laid;
}

KernelCall::KernelCall(const mlacheck_problem& problem, std::span<const Input> inputs,
                       std::span<const Output> outputs, const CallSeries& series)
    : KernelCall(std::array{Stage{problem,
                                  {inputs.begin(), inputs.end()},
                                  {outputs.begin(), outputs.end()},
                                  {},
                                  series.own_caches}},
                 series.calls) {}

std::vector<BlockPart> KernelCall::parts_of_block(const std::vector<Laid>& stages) {
  std::vector<const CallHeader*> headers;
  for (const Laid& stage : stages) headers.push_back(&stage.layout);
  return block_parts(headers);
}

KernelCall::KernelCall(std::span<const Stage> stages, std::int32_t calls)
    : stages_(lay_out(stages, calls)),
      parts_(parts_of_block(stages_)),
      memory_(parts_, "a kernel call") {
  for (const BlockPart& part : parts_)
    std::fill(block() + part.begin, block() + part.end, kGuardByte);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    Laid& laid = stages_[i];
    std::memcpy(block() + i * kHeaderBytes, &laid.layout, sizeof(laid.layout));
    const auto copy_of = [&](CallTensor tensor, std::int32_t call) {
      const CallHeader::Piece& p = laid.layout.pieces[static_cast<std::size_t>(tensor)];
      return std::span(block() + p.offset + static_cast<std::size_t>(call) * p.stride, p.bytes);
    };
    for (const Input& input : stages[i].inputs) {
      for (std::int32_t call = 0; call < copies(laid, input.tensor); ++call) {
        const std::span<std::byte> to = copy_of(input.tensor, call);
        const std::size_t from = is_shared(input.tensor) ? 0 : static_cast<std::size_t>(call);
        const std::byte* bytes = input.bytes.data() + from * to.size();
        for (const BlockPart& part : parts_of(laid, input.tensor))
          std::copy(bytes + part.begin, bytes + part.end, to.data() + part.begin);
      }
      laid.input_hashes[static_cast<std::size_t>(input.tensor)] = hash_of_inputs(i, input.tensor);
    }
    for (const Output& output : stages[i].outputs)
      for (std::int32_t call = 0; call < copies(laid, output.tensor); ++call)
        std::ranges::fill(copy_of(output.tensor, call), poison_of(output.tensor));
  }
}

std::span<const std::byte> KernelCall::tensor(CallTensor tensor, std::int32_t call,
                                              std::size_t stage) const {
  const CallHeader::Piece& p = stages_[stage].layout.pieces[static_cast<std::size_t>(tensor)];
  return {block() + p.offset + static_cast<std::size_t>(call) * p.stride, p.bytes};
}

std::vector<BlockPart> KernelCall::parts_of(const Laid& stage, CallTensor name) {
  const std::uint64_t bytes = stage.layout.pieces[static_cast<std::size_t>(name)].bytes;
  if (name != CallTensor::cache) return {{0, bytes}};
  return cache_parts(stage.layout.problem, bytes);
}

std::uint64_t KernelCall::hash_of_inputs(std::size_t stage, CallTensor name) const {
  std::uint64_t hash = 0;
  const std::vector<BlockPart> parts = parts_of(stages_[stage], name);
  for (std::int32_t call = 0; call < copies(stages_[stage], name); ++call)
    for (const BlockPart& part : parts)
      hash = XXH3_64bits_withSeed(tensor(name, call, stage).data() + part.begin,
                                  part.end - part.begin, hash);
  return hash;
}

std::vector<std::string> KernelCall::trespasses() const {
  std::vector<std::string> found;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) find_trespasses(stage, found);
  for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
    if (memory_.is_blank(parts_[i].end, parts_[i + 1].begin)) continue;
    found.push_back("wrote between the pages of cache");
    break;
  }
  return found;
}

void KernelCall::find_trespasses(std::size_t stage, std::vector<std::string>& found) const {
  const Laid& laid = stages_[stage];
  if (!same(*reinterpret_cast<const CallHeader*>(block() + stage * kHeaderBytes), laid.layout))
    found.push_back("changed the problem");
  for (std::size_t i = 0; i < kCallTensors; ++i) {
    if (laid.layout.pieces[i].offset == 0 || laid.is_linked[i]) continue;
    const auto name = static_cast<CallTensor>(i);
    bool before = false, past = false;
    for (std::int32_t call = 0; call < copies(laid, name); ++call) {
      const std::span<const std::byte> bytes = tensor(name, call, stage);
      const std::byte* start = bytes.data();
      before |= !untouched(start - kGuardBytes, start);
      past |= !untouched(start + bytes.size(), start + aligned(bytes.size()) + kGuardBytes);
    }
    if (before) found.push_back(fmt::format("wrote before {}", tensor_name(name)));
    if (past) found.push_back(fmt::format("wrote past the end of {}", tensor_name(name)));
    if (!is_output(name) && hash_of_inputs(stage, name) != laid.input_hashes[i])
      found.push_back(fmt::format("changed its input {}", tensor_name(name)));
  }
}

}  // namespace mlacheck
