#include "cuda/plugin/kernel_worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "cuda/plugin/device_memory.h"
#include "cuda/plugin/kernel_library.h"

namespace mlacheck {

namespace {

using Clock = std::chrono::steady_clock;

void set_message(CallHeader& header, std::string_view text) {
  const std::size_t length = std::min(text.size(), sizeof(header.message) - 1);
  std::copy_n(text.begin(), length, header.message);
  header.message[length] = '\0';
}

// The tensors' addresses, in the order of CallTensor.
mlacheck_tensors addresses(std::byte* block, const CallHeader& header) {
  const auto at = [&](CallTensor tensor) -> void* {
    const CallHeader::Piece& piece = header.pieces[static_cast<std::size_t>(tensor)];
    return piece.offset == 0 ? nullptr : block + piece.offset;
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
      : block_(block), workspace_bytes_(workspace_bytes) {
    if (on_device) {
      device_block_.emplace(block.size()).copy_from(block);
      device_workspace_.emplace(guarded_bytes()).fill(kPoison);
    } else {
      workspace_.assign(guarded_bytes(), kPoison);
    }
    const auto guard_end = reinterpret_cast<std::uintptr_t>(start()) + kGuardBytes;
    offset_ = kGuardBytes + (kTensorAlignment - guard_end % kTensorAlignment) % kTensorAlignment;
  }

  std::byte* block() const { return device_block_ ? device_block_->data() : block_.data(); }
  std::byte* workspace() { return start() + offset_; }
  // Until what was started in device memory has ended.
  void wait() const {
    if (device_block_) synchronise_device();
  }
  // The kernel's outputs and what else it wrote, into the block in host memory, but for the header.
  void fetch() {
    if (!device_block_) return;
    std::vector<std::byte> header(sizeof(CallHeader));
    std::copy_n(block_.begin(), header.size(), header.begin());
    device_block_->copy_to(block_);
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
  std::size_t guarded_bytes() const {
    return workspace_bytes_ + 2 * kGuardBytes + kTensorAlignment;
  }
  std::byte* start() { return device_workspace_ ? device_workspace_->data() : workspace_.data(); }

  std::span<std::byte> block_;
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
  if (task == WorkerTask::run && kernel.memory == MLACHECK_DEVICE && !find_gpu()) {
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
  CallMemory memory(block, workspace_bytes, kernel.memory == MLACHECK_DEVICE);
  const mlacheck_tensors tensors = addresses(memory.block(), header);
  memory.wait();
  const auto begin = Clock::now();
  const int result = kernel.run(&header.problem, &tensors, memory.workspace(), workspace_bytes,
                                nullptr, header.message, room);
  if (result != 0) return CallStatus::failed;  // with its own reason
  memory.wait();
  header.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  memory.fetch();
  if (memory.workspace_overrun()) {
    set_message(header, fmt::format("wrote outside its workspace of {} bytes", workspace_bytes));
    return CallStatus::failed;
  }
  return CallStatus::done;
}

CallOutcome in_worker(const KernelCall& call, const KernelTarget& target,
                      std::chrono::seconds timeout, WorkerTask task) {
  const std::string program = target.worker_program.string();
  const std::string library = std::filesystem::absolute(target.library).string();
  const std::string descriptor = std::to_string(call.file_descriptor());
  const std::array<const char*, 7> arguments = {program.c_str(),
                                                "worker",
                                                descriptor.c_str(),
                                                library.c_str(),
                                                target.kernel.c_str(),
                                                task == WorkerTask::supports ? "supports" : nullptr,
                                                nullptr};
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork of a kernel worker");
  if (child == 0) {
    fcntl(call.file_descriptor(), F_SETFD, 0);  // survives the exec of this child alone
    dup2(STDERR_FILENO, STDOUT_FILENO);         // what a kernel prints is no part of the report
    execv(program.c_str(), const_cast<char* const*>(arguments.data()));
    _exit(127);
  }

  const auto deadline = Clock::now() + timeout;
  int status = 0;
  auto pause = std::chrono::microseconds(200);
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "waiting for a kernel worker");
    if (Clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return {CallOutcome::Kind::timed_out, fmt::format("no answer in {} s", timeout.count()), 0};
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20'000));
  }

  using Kind = CallOutcome::Kind;
  const std::string message = call.message();
  if (WIFSIGNALED(status))
    return {Kind::crashed,
            fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))),
            0};
  if (WEXITSTATUS(status) == 127 && call.status() == CallStatus::pending)
    return {Kind::failed, fmt::format("cannot start the worker program {}", program), 0};
  switch (call.status()) {
    case CallStatus::done:
      if (WEXITSTATUS(status) == 0) return {Kind::done, "", call.seconds()};
      break;
    case CallStatus::refused:
      return {Kind::refused, message.empty() ? "gave no reason" : message, 0};
    case CallStatus::failed:
      return {Kind::failed, message.empty() ? "gave no reason" : message, call.seconds()};
    case CallStatus::pending:
      break;
  }
  return {Kind::crashed,
          fmt::format("ended with exit status {} in the middle of a call", WEXITSTATUS(status)), 0};
}

}  // namespace

CallOutcome run_in_worker(const KernelCall& call, const KernelTarget& target,
                          std::chrono::seconds timeout) {
  return in_worker(call, target, timeout, WorkerTask::run);
}

CallOutcome ask_in_worker(const KernelCall& call, const KernelTarget& target,
                          std::chrono::seconds timeout) {
  return in_worker(call, target, timeout, WorkerTask::supports);
}

int serve_call(int file_descriptor, const std::filesystem::path& library, const std::string& kernel,
               WorkerTask task) {
  struct stat info = {};
  if (fstat(file_descriptor, &info) != 0) return 3;
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (bytes < sizeof(CallHeader)) return 3;
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_descriptor, 0);
  if (block == MAP_FAILED) return 3;

  auto& header = *static_cast<CallHeader*>(block);
  try {
    header.status =
        make_call({static_cast<std::byte*>(block), bytes}, header, library, kernel, task);
  } catch (const std::exception& error) {
    set_message(header, error.what());
    header.status = CallStatus::failed;
  }
  // Not exit: destructors of a misbehaving kernel's library are no business of this call.
  _exit(0);
}

}  // namespace mlacheck
