#include "cuda/plugin/kernel_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/std.h>

#include <cmath>
#include <set>

namespace mlacheck {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw KernelLibraryError(fmt::format("{}: {}", path.string(), what));
}

struct Range {
  std::string_view field;
  std::int64_t value;
  std::int64_t low;
  std::int64_t high;
};

void check_ranges(const std::filesystem::path& path, std::string_view kernel,
                  std::initializer_list<Range> ranges) {
  for (const Range& r : ranges)
    if (r.value < r.low || r.value > r.high)
      refuse(path, fmt::format("kernel '{}': {} is {}, allowed are {} to {}", kernel, r.field,
                               r.value, r.low, r.high));
}

void check_error(const std::filesystem::path& path, std::string_view kernel, std::string_view field,
                 float value, float high) {
  // Written so that NaN is refused.
  if (!(value >= 0 && value <= high))
    refuse(path,
           fmt::format("kernel '{}': {} is {}, allowed are 0 to {}", kernel, field, value, high));
}

void check_size(const std::filesystem::path& path, std::string_view what, std::uint32_t got,
                std::size_t expected) {
  if (got < expected)
    refuse(path, fmt::format("{} has struct_size {}, expected at least {}", what, got, expected));
}

void check_kernel(const std::filesystem::path& path, const mlacheck_kernel* kernel,
                  std::set<std::string_view>& names) {
  if (kernel == nullptr) refuse(path, "the list of kernels holds a null pointer");
  check_size(path, "a mlacheck_kernel", kernel->struct_size, sizeof(mlacheck_kernel));
  if (kernel->name == nullptr || kernel->name[0] == '\0') refuse(path, "a kernel has no name");
  const std::string_view name = kernel->name;
  if (!names.insert(name).second) refuse(path, fmt::format("two kernels are named '{}'", name));
  if (kernel->description == nullptr)
    refuse(path, fmt::format("kernel '{}' has no description", name));
  if (kernel->supports == nullptr || kernel->workspace_size == nullptr || kernel->run == nullptr)
    refuse(path, fmt::format("kernel '{}' lacks supports, workspace_size or run", name));

  const mlacheck_conventions& conventions = kernel->conventions;
  const mlacheck_contract& contract = kernel->contract;
  check_size(path, fmt::format("kernel '{}': conventions", name), conventions.struct_size,
             sizeof(mlacheck_conventions));
  check_size(path, fmt::format("kernel '{}': contract", name), contract.struct_size,
             sizeof(mlacheck_contract));
  check_ranges(
      path, name,
      {{"op", kernel->op, MLACHECK_SPARSE_ATTENTION, MLACHECK_MAP_SLOTS},
       {"memory", kernel->memory, MLACHECK_HOST, MLACHECK_DEVICE},
       {"conventions.lse_base", conventions.lse_base, MLACHECK_LSE_NATURAL, MLACHECK_LSE_BASE2},
       {"conventions.lse_empty", conventions.lse_empty, MLACHECK_EMPTY_MINUS_INF,
        MLACHECK_EMPTY_MINUS_1E30},
       {"conventions.sink_in_lse", conventions.sink_in_lse, 0, 1},
       {"conventions.index_units", conventions.index_units, 0, 0},
       {"conventions.row_relative", conventions.row_relative, 0, 1},
       {"conventions.any_order", conventions.any_order, 0, 1},
       {"conventions.any_tie", conventions.any_tie, 0, 1},
       {"contract.accumulate", contract.accumulate, MLACHECK_TO_NEAREST, MLACHECK_TOWARD_ZERO},
       {"contract.qk_block", contract.qk_block, 1, 1024},
       {"contract.qk_order", contract.qk_order, MLACHECK_SUM_SEQUENTIAL, MLACHECK_SUM_TREE},
       {"contract.pv_block", contract.pv_block, 1, 1024},
       {"contract.pv_order", contract.pv_order, MLACHECK_SUM_SEQUENTIAL, MLACHECK_SUM_TREE},
       {"contract.tile", contract.tile, 0, 1 << 20},
       {"contract.sum_order", contract.sum_order, MLACHECK_SUM_SEQUENTIAL, MLACHECK_SUM_TREE},
       {"contract.weight_dtype", contract.weight_dtype, MLACHECK_F32, MLACHECK_E4M3},
       {"contract.sum_of_rounded", contract.sum_of_rounded, 0, 1},
       {"contract.partial_dtype", contract.partial_dtype, MLACHECK_F32, MLACHECK_BF16},
       {"contract.max_splits", contract.max_splits, 1, 1 << 20},
       {"contract.batch_invariant", contract.batch_invariant, 0, 1},
       {"contract.run_deterministic", contract.run_deterministic, 0, 1}});
  // A contract may be loose, but not so loose that nothing could fail it.
  check_error(path, name, "contract.exp2_error", contract.exp2_error, 0x1p-8f);
  check_error(path, name, "contract.log2_error", contract.log2_error, 0x1p-8f);
  check_error(path, name, "contract.lazy_max", contract.lazy_max, 64.0f);
}

}  // namespace

KernelLibrary KernelLibrary::open(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  if (!std::filesystem::is_regular_file(file, error)) refuse(path, "no such file");

  void* raw = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (raw == nullptr) {
    const char* reason = dlerror();
    refuse(path, reason != nullptr ? reason : "cannot be loaded");
  }
  std::shared_ptr<void> handle(raw, [](void* h) { dlclose(h); });

  const auto entry =
      reinterpret_cast<mlacheck_kernel_library_fn>(dlsym(raw, MLACHECK_KERNEL_LIBRARY_SYMBOL));
  if (entry == nullptr) refuse(path, "exports no function '" MLACHECK_KERNEL_LIBRARY_SYMBOL "'");

  const mlacheck_library* library = entry(MLACHECK_ABI_VERSION);
  if (library == nullptr)
    refuse(path, fmt::format("does not serve ABI version {}", MLACHECK_ABI_VERSION));
  check_size(path, "mlacheck_library", library->struct_size, sizeof(mlacheck_library));
  if (library->abi_version != MLACHECK_ABI_VERSION)
    refuse(path, fmt::format("was built for ABI version {}, this program speaks {}",
                             library->abi_version, MLACHECK_ABI_VERSION));
  if (library->name == nullptr || library->version == nullptr)
    refuse(path, "the library has no name or no version");
  if (library->kernel_count == 0 || library->kernels == nullptr)
    refuse(path, "the library holds no kernel");

  std::set<std::string_view> names;
  for (std::uint32_t i = 0; i < library->kernel_count; ++i)
    check_kernel(path, library->kernels[i], names);
  return {path, std::move(handle), library};
}

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
