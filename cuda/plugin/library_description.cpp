#include "cuda/plugin/library_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mlacheck {

namespace {

static_assert(std::is_trivially_copyable_v<LibraryDescription>);
static_assert(sizeof(mlacheck_kernel) <= sizeof(LibraryDescription::Kernel::room));

void drop_pointers(mlacheck_kernel& kernel) {
  kernel.name = kernel.description = nullptr;
  kernel.supports = nullptr;
  kernel.workspace_size = nullptr;
  kernel.run = nullptr;
}

template <std::size_t N>
void write_text(char (&to)[N], std::string_view text, std::string_view what) {
  if (text.size() >= N)
    throw std::length_error(fmt::format("{} is longer than {} bytes", what, N - 1));
  std::ranges::copy(text, to);
  to[text.size()] = '\0';
}

// Owns what its own library points to.
struct Copy {
  explicit Copy(const LibraryDescription& from) : description(from) {
    // Written by a process that a foreign library has run in.
    description.kernel_count =
        std::min<std::uint32_t>(description.kernel_count, LibraryDescription::kMostKernels);
    description.name[sizeof(description.name) - 1] = '\0';
    description.version[sizeof(description.version) - 1] = '\0';
    for (LibraryDescription::Kernel& k :
         std::span(description.kernels).first(description.kernel_count)) {
      k.name[sizeof(k.name) - 1] = '\0';
      k.description[sizeof(k.description) - 1] = '\0';
      drop_pointers(k.kernel);
      k.kernel.name = k.name;
      k.kernel.description = k.description;
      kernels.push_back(&k.kernel);
    }
    library = {sizeof(mlacheck_library),
               description.abi_version,
               description.name,
               description.version,
               kernels.data(),
               description.kernel_count,
               0};
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  LibraryDescription description;
  std::vector<const mlacheck_kernel*> kernels;
  mlacheck_library library;
};

}  // namespace

SharedMemory memory_for_description() {
  return SharedMemory(sizeof(LibraryDescription), "a kernel library's description");
}

void describe(const KernelLibrary& library, LibraryDescription& description) {
  description.abi_version = MLACHECK_ABI_VERSION;
  write_text(description.name, library.name(), "the library's name");
  write_text(description.version, library.version(), "the library's version");
  const auto kernels = library.kernels();
  if (kernels.size() > LibraryDescription::kMostKernels)
    throw std::length_error(fmt::format("holds {} kernels, at most {} are taken", kernels.size(),
                                        LibraryDescription::kMostKernels));
  for (const mlacheck_kernel* kernel : kernels) {
    LibraryDescription::Kernel& described = description.kernels[description.kernel_count++];
    std::memcpy(&described.kernel, kernel,
                std::min<std::size_t>(kernel->struct_size, sizeof(mlacheck_kernel)));
    drop_pointers(described.kernel);
    write_text(described.name, kernel->name, "a kernel's name");
    write_text(described.description, kernel->description, "a kernel's description");
  }
}

KernelLibrary describe_in_worker(KernelService service) {
  const std::filesystem::path path = service.library;
  const auto pool = std::make_shared<KernelProcessPool>(std::move(service));
  const SharedMemory memory = memory_for_description();
  pool->give_back(pool->start(memory));
  const auto copy = std::make_shared<const Copy>(
      *reinterpret_cast<const LibraryDescription*>(memory.bytes().data()));
  return KernelLibrary::described(path, {copy, &copy->library}, pool);
}

}  // namespace mlacheck
