#include "cuda/plugin/kernel_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cuda/plugin/foreign_text.h"
#include "cuda/plugin/kernel_declaration.h"
#include "cuda/plugin/kernel_process_pool.h"

namespace mlacheck {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw KernelLibraryError(fmt::format("{}: {}", path.string(), what));
}

void check_size(const std::filesystem::path& path, std::string_view what, std::uint32_t got,
                std::size_t expected) {
  if (got < expected)
    refuse(path, fmt::format("{} has struct_size {}, expected at least {}", what, got, expected));
}

// They stand in requests and reports, a line each.
void check_name(const std::filesystem::path& path, std::string_view what, std::string_view name) {
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  if (std::ranges::any_of(name, is_control))
    refuse(path, fmt::format("{} '{}' holds a control character", what, shown(name)));
}

void check_kernel(const std::filesystem::path& path, const mlacheck_kernel* kernel,
                  std::set<std::string_view>& names) {
  if (kernel == nullptr) refuse(path, "the list of kernels holds a null pointer");
  check_size(path, "a mlacheck_kernel", kernel->struct_size, kFirstKernelSize);
  if (kernel->name == nullptr || kernel->name[0] == '\0') refuse(path, "a kernel has no name");
  const std::string_view name = kernel->name;
  check_name(path, "a kernel's name", name);
  if (!names.insert(name).second) refuse(path, fmt::format("two kernels are named '{}'", name));
  if (kernel->description == nullptr)
    refuse(path, fmt::format("kernel '{}' has no description", name));
  const std::string flaws = flaws_of_declaration(*kernel);
  if (!flaws.empty()) refuse(path, fmt::format("kernel '{}': {}", name, flaws));
}

void check_library(const std::filesystem::path& path, const mlacheck_library& library) {
  check_size(path, "mlacheck_library", library.struct_size, sizeof(mlacheck_library));
  if (library.abi_version != MLACHECK_ABI_VERSION)
    refuse(path, fmt::format("was built for ABI version {}, this program speaks {}",
                             library.abi_version, MLACHECK_ABI_VERSION));
  if (library.name == nullptr || library.version == nullptr)
    refuse(path, "the library has no name or no version");
  check_name(path, "the library's name", library.name);
  check_name(path, "the library's version", library.version);
  if (library.kernel_count == 0 || library.kernels == nullptr)
    refuse(path, "the library holds no kernel");

  std::set<std::string_view> names;
  for (std::uint32_t i = 0; i < library.kernel_count; ++i)
    check_kernel(path, library.kernels[i], names);
}

}  // namespace

KernelLibrary KernelLibrary::open(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  if (!std::filesystem::is_regular_file(file, error)) refuse(path, "no such file");

  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    refuse(path, reason != nullptr ? reason : "cannot be loaded");
  }
  const auto entry =
      reinterpret_cast<mlacheck_kernel_library_fn>(dlsym(handle, MLACHECK_KERNEL_LIBRARY_SYMBOL));
  if (entry == nullptr) refuse(path, "exports no function '" MLACHECK_KERNEL_LIBRARY_SYMBOL "'");

  const mlacheck_library* library = entry(MLACHECK_ABI_VERSION);
  if (library == nullptr)
    refuse(path, fmt::format("does not serve ABI version {}", MLACHECK_ABI_VERSION));
  check_library(path, *library);
  for (const mlacheck_kernel* kernel : std::span(library->kernels, library->kernel_count))
    if (kernel->supports == nullptr || kernel->workspace_size == nullptr || kernel->run == nullptr)
      refuse(path, fmt::format("kernel '{}' lacks supports, workspace_size or run", kernel->name));
  // It stays loaded: no owner.
  return {path, {std::shared_ptr<void>(), library}, {}};
}

KernelLibrary KernelLibrary::described(const std::filesystem::path& path,
                                       std::shared_ptr<const mlacheck_library> library,
                                       std::shared_ptr<KernelProcessPool> calls) {
  check_library(path, *library);
  return {path, std::move(library), std::move(calls)};
}

KernelTarget KernelLibrary::target(std::string_view kernel) const {
  return {calls_, std::string(kernel)};
}

KernelLibrary KernelLibrary::afresh() const { return {path_, library_, calls_->afresh()}; }

KernelLibrary KernelLibrary::afresh(std::chrono::seconds call_timeout) const {
  KernelService service = calls_->service();
  service.call_timeout = std::min(service.call_timeout, call_timeout);
  return {path_, library_, std::make_shared<KernelProcessPool>(std::move(service))};
}

std::chrono::seconds KernelLibrary::call_timeout() const {
  return calls_ == nullptr ? kKernelTimeout : calls_->service().call_timeout;
}

std::int64_t KernelLibrary::hangs() const { return calls_->hangs(); }

std::vector<std::string> KernelLibrary::finish() const { return calls_->finish(); }

const mlacheck_kernel& KernelLibrary::kernel(std::string_view name) const {
  std::string known;
  for (const mlacheck_kernel* kernel : kernels()) {
    if (name == kernel->name) return *kernel;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", kernel->name);
  }
  refuse(path_, fmt::format("has no kernel '{}'; it has: {}", name, known));
}

std::string_view operator_name(std::int32_t op) {
  switch (op) {
    case MLACHECK_SPARSE_ATTENTION:
      return "sparse_attention";
    case MLACHECK_INDEX_SCORES:
      return "index_scores";
    case MLACHECK_TOP_K:
      return "top_k";
    case MLACHECK_INDEX_SELECT:
      return "index_select";
    case MLACHECK_MAP_SLOTS:
      return "map_slots";
    default:
      return "?";
  }
}

}  // namespace mlacheck
