#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_process.h"
#include "cuda/plugin/kernel_target.h"
#include "cuda/plugin/shared_memory.h"

namespace mlacheck {

// Long enough for the largest recipe on a slow machine, short enough to wait for a kernel that
// hangs.
inline constexpr std::chrono::seconds kKernelTimeout{300};
// Long enough for any library's constructors, short enough to wait for one that hangs.
inline constexpr std::chrono::seconds kLoadTimeout{30};

// Long enough for what a library does at exit, on a busy machine.
inline constexpr std::chrono::seconds kEndTimeout{10};

// Calls that hang, each at the cost of its time, after which a library is not called again.
inline constexpr std::int64_t kMostHangs = 3;

// How to call the kernels of a library.
struct KernelService {
  std::filesystem::path library;     // as it is named to people
  std::vector<std::string> command;  // the worker's; the number of its socket is added
  std::chrono::seconds call_timeout = kKernelTimeout;
  std::chrono::seconds load_timeout = kLoadTimeout;
};

// The command of a program that serves a shared object: `PROGRAM worker -- LIBRARY`.
KernelService service_by(const std::filesystem::path& program, const std::filesystem::path& library,
                         std::chrono::seconds call_timeout = kKernelTimeout,
                         std::chrono::seconds load_timeout = kLoadTimeout);

// A process that has loaded the library.
struct LoadedProcess {
  explicit LoadedProcess(const KernelService& service)
      : process(service.command, service.load_timeout) {}

  KernelProcess process;
  std::int64_t calls = 0;  // that it has made
};

// The processes that make a library's calls: as many as there are calls at once, each for many.
class KernelProcessPool {
 public:
  explicit KernelProcessPool(KernelService service)
      : KernelProcessPool(std::move(service), std::make_shared<std::atomic<std::int64_t>>(0)) {}
  // Another pool for the same library: its processes have made no calls.
  std::shared_ptr<KernelProcessPool> afresh() const {
    return std::shared_ptr<KernelProcessPool>(new KernelProcessPool(service_, hangs_));
  }

  const KernelService& service() const { return service_; }
  // The caller's until it gives it back; ended if it never does. `fresh`: one that has made no
  // call. Throws KernelLibraryError when loading the library goes wrong, std::runtime_error when no
  // process can be had.
  std::unique_ptr<LoadedProcess> take(bool fresh);
  void give_back(std::unique_ptr<LoadedProcess> process);
  // A new one, which has written what the library declares into `description`.
  std::unique_ptr<LoadedProcess> start(const SharedMemory& description);

  // Calls that have hung, here or afresh.
  std::int64_t hangs() const { return *hangs_; }
  void note_hang() { ++*hangs_; }
  // Asks those that are given back to end, all at once: what is wrong with the ends of some, each
  // once.
  std::vector<std::string> finish(std::chrono::milliseconds patience = kEndTimeout);

 private:
  KernelProcessPool(KernelService service, std::shared_ptr<std::atomic<std::int64_t>> hangs)
      : service_(std::move(service)), hangs_(std::move(hangs)) {}

  KernelService service_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<LoadedProcess>> idle_;  // the one used last at the end
  std::shared_ptr<std::atomic<std::int64_t>> hangs_;
};

}  // namespace mlacheck
