#include "cuda/plugin/kernel_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "cuda/plugin/device_memory.h"
#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/worker_process.h"

namespace mlacheck {

namespace {

using Clock = std::chrono::steady_clock;

void set_message(CallHeader& header, std::string_view text) {
  const std::size_t length = std::min(text.size(), sizeof(header.message) - 1);
  std::copy_n(text.begin(), length, header.message);
  header.message[length] = '\0';
}

// The addresses of a call's tensors, in the order of CallTensor.
mlacheck_tensors addresses(std::byte* block, const CallHeader& header, std::int32_t call) {
  const auto at = [&](CallTensor tensor) -> void* {
    const CallHeader::Piece& piece = header.pieces[static_cast<std::size_t>(tensor)];
    return piece.offset == 0 ? nullptr
                             : block + piece.offset + static_cast<std::size_t>(call) * piece.stride;
  };
  mlacheck_tensors t = {};
  t.struct_size = sizeof(t);
  t.q = at(CallTensor::q);
  t.cache = at(CallTensor::cache);
  t.indices = static_cast<const std::int32_t*>(at(CallTensor::indices));
  t.topk_length = static_cast<const std::int32_t*>(at(CallTensor::topk_length));
  t.attn_sink = static_cast<const float*>(at(CallTensor::attn_sink));
  t.weights = static_cast<const float*>(at(CallTensor::weights));
  t.block_table = static_cast<const std::int32_t*>(at(CallTensor::block_table));
  t.request = static_cast<const std::int32_t*>(at(CallTensor::request));
  t.range_begin = static_cast<const std::int32_t*>(at(CallTensor::range_begin));
  t.range_end = static_cast<const std::int32_t*>(at(CallTensor::range_end));
  t.scores_in = static_cast<const float*>(at(CallTensor::scores_in));
  t.positions = static_cast<const std::int32_t*>(at(CallTensor::positions));
  t.out = at(CallTensor::out);
  t.lse = static_cast<float*>(at(CallTensor::lse));
  t.max_logit = static_cast<float*>(at(CallTensor::max_logit));
  t.scores_out = static_cast<float*>(at(CallTensor::scores_out));
  t.selected = static_cast<std::int32_t*>(at(CallTensor::selected));
  t.slots = static_cast<std::int32_t*>(at(CallTensor::slots));
  return t;
}

// What a kernel is given: the call's block and a workspace, poisoned and between guards of its own,
// in the memory that it wants.
class CallMemory {
 public:
  CallMemory(std::span<std::byte> block, std::uint64_t workspace_bytes, bool on_device)
      : block_(block),
        parts_(block_parts(*reinterpret_cast<const CallHeader*>(block.data()))),
        workspace_bytes_(workspace_bytes) {
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
  // The kernel's outputs and what else it wrote, into the block in host memory, but for the header.
  void fetch() {
    if (!device_block_) return;
    std::vector<std::byte> header(sizeof(CallHeader));
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

constexpr std::uint64_t kLargestWorkspace = std::uint64_t{1} << 34;

CallStatus make_call(std::span<std::byte> block, CallHeader& header,
                     const std::filesystem::path& path, const std::string& name, WorkerTask task) {
  const KernelLibrary library = KernelLibrary::open(path);
  const mlacheck_kernel& kernel = library.kernel(name);
  const std::size_t room = sizeof(header.message);
  if (task == WorkerTask::time && kernel.memory != MLACHECK_DEVICE) {
    set_message(header, "wants host memory: only kernels on a GPU are timed");
    return CallStatus::refused;
  }
  if (task != WorkerTask::supports && kernel.memory == MLACHECK_DEVICE && !find_gpu()) {
    set_message(header, "wants device memory, and there is no GPU here");
    return CallStatus::refused;
  }
  if (kernel.supports(&header.problem, header.message, room) == 0) return CallStatus::refused;
  if (task == WorkerTask::supports) return CallStatus::done;

  std::uint64_t workspace_bytes = 0;
  if (kernel.workspace_size(&header.problem, &workspace_bytes) != 0) {
    set_message(header, "workspace_size failed on a problem that it supports");
    return CallStatus::failed;
  }
  if (workspace_bytes > kLargestWorkspace) {
    set_message(header, fmt::format("asks for a workspace of {} bytes, at most {} are given",
                                    workspace_bytes, kLargestWorkspace));
    return CallStatus::failed;
  }
  std::optional<CallMemory> taken;
  try {
    taken.emplace(block, workspace_bytes, kernel.memory == MLACHECK_DEVICE);
  } catch (const DeviceMemoryShort& error) {
    set_message(header, error.what());
    return CallStatus::refused;
  }
  CallMemory& memory = *taken;
  const auto start = [&](std::int32_t i, void* stream) {
    const mlacheck_tensors tensors = addresses(memory.block(), header, i);
    return kernel.run(&header.problem, &tensors, memory.workspace(), workspace_bytes, stream,
                      header.message, room);
  };
  memory.wait();
  const auto begin = Clock::now();
  if (task == WorkerTask::time) {
    header.times = time_calls(
        header.calls,
        [&](std::int32_t i, void* stream) {
          if (start(i, stream) != 0) throw std::runtime_error(std::string(header.message));
        },
        [&] { memory.reset(); });
  } else {
    if (start(0, nullptr) != 0) return CallStatus::failed;  // with its own reason
    memory.wait();
  }
  header.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  memory.fetch();
  if (memory.workspace_overrun()) {
    set_message(header, fmt::format("wrote outside its workspace of {} bytes", workspace_bytes));
    return CallStatus::failed;
  }
  return CallStatus::done;
}

CallOutcome in_worker(const KernelCall& call, const KernelTarget& target, const char* task) {
  using Kind = CallOutcome::Kind;
  if (target.hung && *target.hung) return {Kind::timed_out, "not called again after it hung", 0};
  const std::array<std::string, 4> arguments = {task, std::to_string(call.file_descriptor()),
                                                std::filesystem::absolute(target.library).string(),
                                                target.kernel};
  const WorkerEnd end =
      run_worker(target.worker_program, arguments, call.file_descriptor(), target.timeout);
  if (end.timed_out) {
    if (target.hung) *target.hung = true;
    return {Kind::timed_out, fmt::format("no answer in {} s", target.timeout.count()), 0};
  }
  if (end.killed()) return {Kind::crashed, end.words(), 0};
  const CallStatus status = call.status();
  if (status == CallStatus::pending)
    throw std::runtime_error(fmt::format("the worker program {} {} and has not taken its call",
                                         target.worker_program.string(), end.words()));
  if (!end.answered(static_cast<int>(status)))
    return {Kind::crashed, fmt::format("{} in the middle of a call", end.words()), 0};
  if (status == CallStatus::done) return {Kind::done, "", call.seconds()};
  const std::string message = call.message();
  return {status == CallStatus::refused ? Kind::refused : Kind::failed,
          message.empty() ? "gave no reason" : message,
          status == CallStatus::failed ? call.seconds() : 0};
}

}  // namespace

CallOutcome run_in_worker(const KernelCall& call, const KernelTarget& target) {
  return in_worker(call, target, "run");
}

CallOutcome time_in_worker(const KernelCall& call, const KernelTarget& target) {
  return in_worker(call, target, "time");
}

CallOutcome ask_in_worker(const KernelCall& call, const KernelTarget& target) {
  return in_worker(call, target, "supports");
}

int serve_call(int file_descriptor, const std::filesystem::path& library, const std::string& kernel,
               WorkerTask task) {
  const std::span<std::byte> block = map_shared_memory(file_descriptor, sizeof(CallHeader));
  if (block.empty()) return 3;
  auto& header = *reinterpret_cast<CallHeader*>(block.data());
  header.status = CallStatus::started;
  CallStatus status = CallStatus::failed;
  try {
    status = make_call(block, header, library, kernel, task);
  } catch (const std::exception& error) {
    set_message(header, error.what());
  }
  header.status = status;
  end_worker(static_cast<int>(status));
}

}  // namespace mlacheck
