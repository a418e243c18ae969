#include "cuda/plugin/kernel_server.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/plugin/call_memory.h"
#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_process.h"
#include "cuda/plugin/kernel_timing.h"
#include "cuda/plugin/library_description.h"
#include "cuda/plugin/worker_socket.h"

namespace mlacheck {

namespace {

using Clock = std::chrono::steady_clock;

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

enum class Task { describe, supports, run, time };

// Throws std::runtime_error, naming it, where there is no such task.
Task parse_task(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Task>, 4> kTasks = {
      {{"describe", Task::describe},
       {"supports", Task::supports},
       {"run", Task::run},
       {"time", Task::time}}};
  for (const auto& [known, task] : kTasks)
    if (name == known) return task;
  throw std::runtime_error(fmt::format("unknown task '{}'", name));
}

constexpr std::uint64_t kLargestWorkspace = std::uint64_t{1} << 34;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    lines.emplace_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

// A kernel with its problem and its part of the workspace.
struct Stage {
  const mlacheck_kernel* kernel = nullptr;
  const CallHeader* header = nullptr;
  std::uint64_t workspace_at = 0, workspace_bytes = 0;
};

// Stage after stage of a call, each with a kernel of the library.
class Stages {
 public:
  // Throws KernelLibraryError for a kernel that there is none of, std::runtime_error for a block of
  // another number of stages.
  Stages(std::span<std::byte> block, const KernelLibrary& library, std::string_view kernels) {
    const std::vector<std::string> names = lines_of(kernels);
    const std::vector<const CallHeader*> headers = headers_of(block);
    if (headers.size() != names.size())
      throw std::runtime_error(
          fmt::format("{} kernels for a call of {} stages", names.size(), headers.size()));
    for (std::size_t i = 0; i < names.size(); ++i)
      stages_.push_back({&library.kernel(names[i]), headers[i]});
  }

  // Why one refuses its problem, an empty text where it does not say; none when none does.
  std::optional<std::string> refusal() {
    for (const Stage& stage : stages_) {
      if (stage.kernel->memory != stages_[0].kernel->memory)
        return fmt::format("{} wants its tensors elsewhere than {}", stage.kernel->name,
                           stages_[0].kernel->name);
      if (stage.kernel->supports(&stage.header->problem, why_.data(), why_.size()) == 0)
        return reason();
    }
    return std::nullopt;
  }
  // What went wrong; empty when nothing did.
  std::string ask_workspaces() {
    for (Stage& stage : stages_) {
      stage.workspace_at = workspace_bytes_;
      if (stage.kernel->workspace_size(&stage.header->problem, &stage.workspace_bytes) != 0)
        return "workspace_size failed on a problem that it supports";
      if (stage.workspace_bytes > kLargestWorkspace)
        return fmt::format("asks for a workspace of {} bytes, at most {} are given",
                           stage.workspace_bytes, kLargestWorkspace);
      // What is the last stage's ends where the guard begins.
      const bool is_last = &stage == &stages_.back();
      workspace_bytes_ += is_last ? stage.workspace_bytes
                                  : (stage.workspace_bytes + kTensorAlignment - 1) /
                                        kTensorAlignment * kTensorAlignment;
    }
    return "";
  }
  std::uint64_t workspace_bytes() const { return workspace_bytes_; }
  bool is_on_device() const { return stages_[0].kernel->memory == MLACHECK_DEVICE; }
  std::int32_t calls() const { return stages_[0].header->calls; }
  std::size_t count() const { return stages_.size(); }

  // Call i of the stages, in turn; false with a reason where one fails.
  bool start(CallMemory& memory, std::int32_t i, void* stream) {
    for (const Stage& stage : stages_) {
      const mlacheck_tensors tensors = addresses(memory.block(), *stage.header, i);
      if (stage.kernel->run(&stage.header->problem, &tensors,
                            memory.workspace() + stage.workspace_at, stage.workspace_bytes, stream,
                            why_.data(), why_.size()) != 0)
        return false;
    }
    return true;
  }
  std::string reason() const { return {why_.data(), strnlen(why_.data(), why_.size())}; }

 private:
  std::vector<Stage> stages_;
  std::uint64_t workspace_bytes_ = 0;
  std::array<char, 512> why_ = {};
};

// What a call comes to, as it is written into the answer.
std::string make_call(std::span<std::byte> block, const KernelLibrary& library,
                      std::string_view kernels, Task task) {
  Stages stages(block, library, kernels);
  if (task == Task::time && !stages.is_on_device())
    return "refused wants host memory: only kernels on a GPU are timed";
  if (task != Task::supports && stages.is_on_device() && !find_gpu())
    return "refused wants device memory, and there is no GPU here";
  const std::optional<std::string> refusal = stages.refusal();
  if (refusal) return "refused " + *refusal;
  if (task == Task::supports) return "done";
  const std::string flaw = stages.ask_workspaces();
  if (!flaw.empty()) return "failed " + flaw;

  std::optional<CallMemory> taken;
  try {
    taken.emplace(block, stages.workspace_bytes(), stages.is_on_device());
  } catch (const DeviceMemoryShort& error) {
    return fmt::format("refused {}", error.what());
  }
  CallMemory& memory = *taken;
  memory.wait();
  const auto begin = Clock::now();
  KernelTimes times;
  if (task == Task::time) {
    times = time_calls(
        stages.calls(),
        [&](std::int32_t i, void* stream) {
          if (!stages.start(memory, i, stream)) throw std::runtime_error(stages.reason());
        },
        [&] { memory.reset(); });
  } else {
    if (!stages.start(memory, 0, nullptr)) return "failed " + stages.reason();
    memory.wait();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  memory.fetch(stages.count() * kHeaderBytes);
  if (memory.workspace_overrun())
    return fmt::format("failed wrote outside its workspace of {} bytes", stages.workspace_bytes());
  if (task == Task::time)
    return fmt::format("done {} {} {} {} {}", seconds, times.in_graph, times.single,
                       times.graph_calls, stages.workspace_bytes());
  return fmt::format("done {}", seconds);
}

// The block of a request, while it is served.
class MappedBlock {
 public:
  // Throws std::runtime_error where it cannot be mapped or is smaller than `least`.
  MappedBlock(int file_descriptor, std::size_t least)
      : bytes_(map_shared_memory(file_descriptor, least)) {
    if (bytes_.empty()) throw std::runtime_error("the shared memory cannot be mapped");
  }
  ~MappedBlock() { munmap(bytes_.data(), bytes_.size()); }
  MappedBlock(const MappedBlock&) = delete;
  MappedBlock& operator=(const MappedBlock&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

class Server {
 public:
  explicit Server(const std::filesystem::path& path) : path_(path) {}

  // The answer to "TASK" or "TASK KERNEL", without the request's number.
  std::string answer(std::string_view request, int file_descriptor) {
    const std::size_t word = std::min(request.find(' '), request.size());
    const std::string_view kernels = request.substr(std::min(word + 1, request.size()));
    try {
      const Task task = parse_task(request.substr(0, word));
      if (task == Task::describe) return describe_library(file_descriptor);
      if (!library_) return "failed it was not asked to describe its library first";
      const MappedBlock block(file_descriptor, sizeof(CallHeader));
      return make_call(block.bytes(), *library_, kernels, task);
    } catch (const std::exception& error) {
      return fmt::format("failed {}", error.what());
    }
  }

 private:
  std::string describe_library(int file_descriptor) {
    try {
      library_ = KernelLibrary::open(path_);
      const MappedBlock block(file_descriptor, sizeof(LibraryDescription));
      describe(*library_, *reinterpret_cast<LibraryDescription*>(block.bytes().data()));
      return "done";
    } catch (const KernelLibraryError& error) {
      return fmt::format("refused {}", error.what());
    }
  }

  std::filesystem::path path_;
  std::optional<KernelLibrary> library_;
};

}  // namespace

void serve_kernels(int socket, const std::filesystem::path& library) {
  Server server(library);
  bool listens = send_packet(socket, kWorkerGreeting);
  while (listens) {
    const Request request = receive_request(socket);
    if (request.text.empty()) break;
    const std::size_t number = std::min(request.text.find(' ') + 1, request.text.size());
    std::string answer =
        request.text.substr(0, number) +
        server.answer(std::string_view(request.text).substr(number), request.file_descriptor);
    if (request.file_descriptor >= 0) close(request.file_descriptor);
    std::fflush(nullptr);  // what a kernel printed comes before the answer
    answer.resize(std::min(answer.size(), kMostPacketBytes));
    listens = send_packet(socket, answer);
  }
  // With the library's destructors and exit handlers: what they do is looked at too.
  std::exit(0);
}

}  // namespace mlacheck
