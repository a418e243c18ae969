#include "cuda/plugin/kernel_server.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

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

constexpr std::uint64_t kLargestWorkspace = std::uint64_t{1} << 34;

// What a call comes to, as it is written into the answer.
std::string make_call(std::span<std::byte> block, const KernelLibrary& library,
                      const std::string& name, std::string_view task) {
  auto& header = *reinterpret_cast<CallHeader*>(block.data());
  const mlacheck_kernel& kernel = library.kernel(name);
  std::array<char, 512> why = {};
  const auto reason = [&] { return std::string(why.data(), strnlen(why.data(), why.size())); };
  if (task == "time" && kernel.memory != MLACHECK_DEVICE) {
    return "refused wants host memory: only kernels on a GPU are timed";
  }
  if (task != "supports" && kernel.memory == MLACHECK_DEVICE && !find_gpu()) {
    return "refused wants device memory, and there is no GPU here";
  }
  if (kernel.supports(&header.problem, why.data(), why.size()) == 0) return "refused " + reason();
  if (task == "supports") return "done";

  std::uint64_t workspace_bytes = 0;
  if (kernel.workspace_size(&header.problem, &workspace_bytes) != 0) {
    return "failed workspace_size failed on a problem that it supports";
  }
  if (workspace_bytes > kLargestWorkspace) {
    return fmt::format("failed asks for a workspace of {} bytes, at most {} are given",
                       workspace_bytes, kLargestWorkspace);
  }
  std::optional<CallMemory> taken;
  try {
    taken.emplace(block, workspace_bytes, kernel.memory == MLACHECK_DEVICE);
  } catch (const DeviceMemoryShort& error) {
    return fmt::format("refused {}", error.what());
  }
  CallMemory& memory = *taken;
  const auto start = [&](std::int32_t i, void* stream) {
    const mlacheck_tensors tensors = addresses(memory.block(), header, i);
    return kernel.run(&header.problem, &tensors, memory.workspace(), workspace_bytes, stream,
                      why.data(), why.size());
  };
  memory.wait();
  const auto begin = Clock::now();
  KernelTimes times;
  if (task == "time") {
    times = time_calls(
        header.calls,
        [&](std::int32_t i, void* stream) {
          if (start(i, stream) != 0) throw std::runtime_error(reason());
        },
        [&] { memory.reset(); });
  } else {
    if (start(0, nullptr) != 0) return "failed " + reason();
    memory.wait();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  memory.fetch();
  if (memory.workspace_overrun()) {
    return fmt::format("failed wrote outside its workspace of {} bytes", workspace_bytes);
  }
  if (task == "time")
    return fmt::format("done {} {} {} {}", seconds, times.in_graph, times.single,
                       times.graph_calls);
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
    const std::string_view task = request.substr(0, word);
    const std::string kernel(request.substr(std::min(word + 1, request.size())));
    try {
      if (task == "describe") return describe_library(file_descriptor);
      if (!library_) return "failed it was not asked to describe its library first";
      const MappedBlock block(file_descriptor, sizeof(CallHeader));
      return make_call(block.bytes(), *library_, kernel, task);
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
  // No destructor or exit handler of the library: they are no business of answers that are given.
  _exit(0);
}

}  // namespace mlacheck
