#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "cuda/plugin/kernel_target.h"

namespace mlacheck {

// A kernel library that cannot be loaded, or declares something that the ABI does not allow.
struct KernelLibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A kernel library, checked: ABI version, struct sizes, names, functions and enum values.
class KernelLibrary {
 public:
  // Loads it into this process, whose end it can then be: for worker processes, others call
  // describe_in_worker (library_description.h). It stays loaded until the process ends. Throws
  // KernelLibraryError with the file and what is wrong with it.
  static KernelLibrary open(const std::filesystem::path& path);
  // What another process has found in it, without functions, and how to call its kernels. Throws
  // like open.
  static KernelLibrary described(const std::filesystem::path& path,
                                 std::shared_ptr<const mlacheck_library> library,
                                 std::shared_ptr<KernelProcessPool> calls);

  std::string_view name() const { return library_->name; }
  std::string_view version() const { return library_->version; }
  const std::filesystem::path& path() const { return path_; }
  std::span<const mlacheck_kernel* const> kernels() const {
    return {library_->kernels, library_->kernel_count};
  }

  // The kernel of that name; throws KernelLibraryError that lists the names that there are.
  const mlacheck_kernel& kernel(std::string_view name) const;
  // Of a described library: how to call that kernel.
  KernelTarget target(std::string_view kernel) const;
  // The same library, whose calls are made in processes of their own.
  KernelLibrary afresh() const;
  // The same, each call within that time too; those that take longer do not count as hangs().
  KernelLibrary afresh(std::chrono::seconds call_timeout) const;
  // What each of its calls has; kKernelTimeout where there is no other process for them.
  std::chrono::seconds call_timeout() const;
  // How many calls of its kernels have hung: after kMostHangs there is no other.
  std::int64_t hangs() const;
  // Asks the processes that have made its calls to end, and says what is wrong with their ends: a
  // crash after the last answer, in a destructor or a thread, say.
  std::vector<std::string> finish() const;

 private:
  KernelLibrary(std::filesystem::path path, std::shared_ptr<const mlacheck_library> library,
                std::shared_ptr<KernelProcessPool> calls)
      : path_(std::move(path)), library_(std::move(library)), calls_(std::move(calls)) {}

  std::filesystem::path path_;
  std::shared_ptr<const mlacheck_library> library_;
  std::shared_ptr<KernelProcessPool> calls_;
};

// Field's name of an operator: "sparse_attention", ...; "?" for a value that the ABI does not have.
std::string_view operator_name(std::int32_t op);

}  // namespace mlacheck
