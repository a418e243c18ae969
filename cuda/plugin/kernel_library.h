#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cuda/include/mlacheck_kernel.h"

namespace mlacheck {

// A kernel library that cannot be loaded, or declares something that the ABI does not allow.
struct KernelLibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A loaded kernel library, checked: ABI version, struct sizes, names, functions and enum values.
// Stays loaded as long as a copy of this lives.
class KernelLibrary {
 public:
  // Throws KernelLibraryError with the file and what is wrong with it.
  static KernelLibrary open(const std::filesystem::path& path);

  std::string_view name() const { return library_->name; }
  std::string_view version() const { return library_->version; }
  const std::filesystem::path& path() const { return path_; }
  std::span<const mlacheck_kernel* const> kernels() const {
    return {library_->kernels, library_->kernel_count};
  }

  // The kernel of that name; throws KernelLibraryError that lists the names that there are.
  const mlacheck_kernel& kernel(std::string_view name) const;

 private:
  KernelLibrary(std::filesystem::path path, std::shared_ptr<void> handle,
                const mlacheck_library* library)
      : path_(std::move(path)), handle_(std::move(handle)), library_(library) {}

  std::filesystem::path path_;
  std::shared_ptr<void> handle_;
  const mlacheck_library* library_;
};

// Field's name of an operator: "sparse_attention", ...; "?" for a value that the ABI does not have.
std::string_view operator_name(std::int32_t op);

}  // namespace mlacheck
