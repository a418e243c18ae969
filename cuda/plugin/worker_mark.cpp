#include "cuda/plugin/worker_mark.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace mlacheck {

namespace {

bool has(const std::filesystem::path& process, const std::string& variable) {
  std::ifstream file(process / "environ", std::ios::binary);
  const std::string all = '\0' + std::string(std::istreambuf_iterator<char>(file), {});
  return all.find('\0' + variable + '\0') != std::string::npos;
}

// By a descriptor that is the process's before its environment is read: its number may be another's
// after. Where the kernel gives none (before Linux 5.3), nothing is killed.
bool kill_marked(pid_t process, const std::filesystem::path& files, const std::string& variable) {
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) return false;
  const bool killed =
      has(files, variable) && syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0) == 0;
  close(descriptor);
  return killed;
}

bool kill_some(const std::string& variable) {
  bool found = false;
  std::error_code gone;
  for (std::filesystem::directory_iterator entry("/proc", gone), end; !gone && entry != end;
       entry.increment(gone)) {
    const pid_t process = std::atoi(entry->path().filename().c_str());
    if (process > 0 && process != getpid())
      found = kill_marked(process, entry->path(), variable) || found;
  }
  return found;
}

}  // namespace

WorkerMark::WorkerMark() {
  std::array<std::uint64_t, 2> random = {};
  if (getentropy(random.data(), sizeof(random)) != 0)
    throw std::system_error(errno, std::generic_category(), "a mark for a kernel worker");
  variable_ = fmt::format("MLACHECK_WORKER={:016x}{:016x}", random[0], random[1]);
}

void WorkerMark::kill_all() const {
  // Again while there are any: one may just have started another. What has ended has no environment.
  constexpr int kMostRounds = 100;
  for (int round = 0; round < kMostRounds && kill_some(variable_); ++round) poll(nullptr, 0, 1);
}

}  // namespace mlacheck
