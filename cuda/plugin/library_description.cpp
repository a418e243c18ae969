#include "cuda/plugin/library_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cuda/plugin/shared_memory.h"
#include "cuda/plugin/worker_process.h"

namespace mlacheck {

namespace {

enum class Progress : std::int32_t { pending, started, described, refused };

struct DescribedKernel {
  mlacheck_kernel kernel;  // its pointers are null
  char name[256];
  char description[1024];
};

constexpr std::size_t kMostKernels = 256;

// What stands in shared memory.
struct Description {
  Progress progress;
  std::uint32_t kernel_count;
  char message[4096];  // why the library is refused
  char name[256];
  char version[256];
  DescribedKernel kernels[kMostKernels];
};
static_assert(std::is_trivially_copyable_v<Description>);

// ---- In the worker ----

template <std::size_t N>
void write_text(char (&to)[N], std::string_view text, std::string_view what) {
  if (text.size() >= N)
    throw std::length_error(fmt::format("{} is longer than {} bytes", what, N - 1));
  std::ranges::copy(text, to);
  to[text.size()] = '\0';
}

void describe(const KernelLibrary& library, Description& description) {
  write_text(description.name, library.name(), "the library's name");
  write_text(description.version, library.version(), "the library's version");
  if (library.kernels().size() > kMostKernels)
    throw std::length_error(fmt::format("holds {} kernels, at most {} are taken",
                                        library.kernels().size(), kMostKernels));
  for (const mlacheck_kernel* kernel : library.kernels()) {
    DescribedKernel& described = description.kernels[description.kernel_count++];
    std::memcpy(&described.kernel, kernel,
                std::min<std::size_t>(kernel->struct_size, sizeof(mlacheck_kernel)));
    described.kernel.name = described.kernel.description = nullptr;
    described.kernel.supports = nullptr;
    described.kernel.workspace_size = nullptr;
    described.kernel.run = nullptr;
    write_text(described.name, kernel->name, "a kernel's name");
    write_text(described.description, kernel->description, "a kernel's description");
  }
}

// ---- In the process that asks ----

// Owns what its own library points to.
struct Copy {
  explicit Copy(const Description& from) : description(from) {
    // Written by a process that a foreign library has run in.
    description.kernel_count = std::min<std::uint32_t>(description.kernel_count, kMostKernels);
    description.name[sizeof(description.name) - 1] = '\0';
    description.version[sizeof(description.version) - 1] = '\0';
    for (DescribedKernel& k : std::span(description.kernels).first(description.kernel_count)) {
      k.name[sizeof(k.name) - 1] = '\0';
      k.description[sizeof(k.description) - 1] = '\0';
      k.kernel.name = k.name;
      k.kernel.description = k.description;
      k.kernel.supports = nullptr;
      k.kernel.workspace_size = nullptr;
      k.kernel.run = nullptr;
      kernels.push_back(&k.kernel);
    }
    library = {sizeof(mlacheck_library),
               MLACHECK_ABI_VERSION,
               description.name,
               description.version,
               kernels.data(),
               description.kernel_count,
               0};
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  Description description;
  std::vector<const mlacheck_kernel*> kernels;
  mlacheck_library library;
};

std::string text_of(std::span<const char> text) {
  return {text.data(), strnlen(text.data(), text.size())};
}

}  // namespace

KernelLibrary describe_in_worker(const std::filesystem::path& library,
                                 const std::filesystem::path& worker_program,
                                 std::chrono::seconds call_timeout,
                                 std::chrono::seconds load_timeout) {
  const SharedMemory memory(sizeof(Description), "a kernel library's description");
  const std::filesystem::path file = std::filesystem::absolute(library);
  const std::array<std::string, 3> arguments = {
      "describe", std::to_string(memory.file_descriptor()), file.string()};
  const WorkerEnd end =
      run_worker(worker_program, arguments, memory.file_descriptor(), load_timeout);

  const auto refuse = [&](const std::string& what) {
    throw KernelLibraryError(fmt::format("{}: {}", library.string(), what));
  };
  if (end.timed_out) refuse(fmt::format("is not loaded after {} s", load_timeout.count()));
  if (end.killed()) refuse(fmt::format("crashes when it is loaded: {}", end.words()));
  const auto& description = *reinterpret_cast<const Description*>(memory.bytes().data());
  const Progress progress = description.progress;
  if (progress == Progress::pending)
    throw std::runtime_error(fmt::format("the worker program {} {} and has not described {}",
                                         worker_program.string(), end.words(), library.string()));
  if (!end.answered(static_cast<int>(progress)))
    refuse(fmt::format("ends the process when it is loaded: {}", end.words()));
  if (progress != Progress::described) throw KernelLibraryError(text_of(description.message));

  const auto copy = std::make_shared<const Copy>(description);
  return KernelLibrary::described(
      library, {copy, &copy->library},
      {file, "", worker_program, call_timeout, std::make_shared<std::atomic<bool>>(false)});
}

int serve_description(int file_descriptor, const std::filesystem::path& library) {
  const std::span<std::byte> block = map_shared_memory(file_descriptor, sizeof(Description));
  if (block.empty()) return 3;
  auto& description = *reinterpret_cast<Description*>(block.data());
  description.progress = Progress::started;
  Progress progress = Progress::refused;
  std::string message;
  try {
    describe(KernelLibrary::open(library), description);
    progress = Progress::described;
  } catch (const KernelLibraryError& error) {
    message = error.what();
  } catch (const std::exception& error) {
    message = fmt::format("{}: {}", library.string(), error.what());
  }
  message.resize(std::min(message.size(), sizeof(description.message) - 1));
  write_text(description.message, message, "the message");
  description.progress = progress;
  end_worker(static_cast<int>(progress));
}

}  // namespace mlacheck
