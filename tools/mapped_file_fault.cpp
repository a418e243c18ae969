#include "tools/mapped_file_fault.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "cuda/plugin/orphans.h"
#include "fixtures/checkpoint/mapped_file.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {
namespace {

struct sigaction action_before = {};

// In any thread, at any read: nothing here takes memory or a lock.
void handle_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  // An address comes with a fault alone, not with a signal that somebody sent.
  const MappedFile* const file = info->si_code > 0 ? MappedFile::at(info->si_addr) : nullptr;
  if (file == nullptr) {
    // As if this handler were not there.
    sigaction(SIGBUS, &action_before, nullptr);
    raise(SIGBUS);  // once this returns
    return;
  }
  std::array<char, 8192> text = {};
  struct stat status {};
  const auto size = file->bytes().size();
  const char* const path = file->path().c_str();
  const char* const begin = isatty(STDERR_FILENO) == 1 ? "\n" : "";  // below the progress line
  const bool cut = stat(path, &status) == 0 && static_cast<std::size_t>(status.st_size) < size;
  const auto said =
      cut ? fmt::format_to_n(text.data(), text.size(),
                             "{}mlacheck: {}: was cut short while it was read: expected {} bytes, "
                             "got {}\n",
                             begin, path, size, status.st_size)
          : fmt::format_to_n(text.data(), text.size(),
                             "{}mlacheck: {}: cannot be read at byte {} of {}\n", begin, path,
                             static_cast<const std::byte*>(info->si_addr) - file->bytes().data(),
                             size);
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), static_cast<std::size_t>(said.out - text.data()));
  kill_descendants();
  _exit(kExitHarness);
}

}  // namespace

void report_mapped_file_faults() {
  struct sigaction action = {};
  action.sa_sigaction = handle_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, &action_before);
}

}  // namespace mlacheck
