#include "cuda/plugin/orphans.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>

namespace mlacheck {

namespace {

// Never destroyed: workers may end with the process.
std::mutex& mutex_of_living() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
std::set<pid_t>& living() {
  static std::set<pid_t>& workers = *new std::set<pid_t>;
  return workers;
}

struct Entry {
  pid_t parent;
  bool has_ended;
};

// From "<pid> (<name>) <state> <parent> ...", where the name may hold anything.
std::optional<Entry> entry_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return std::nullopt;
  Entry entry{.parent = 0, .has_ended = text[name_end + 2] == 'Z' || text[name_end + 2] == 'X'};
  std::from_chars(text.data() + name_end + 4, text.data() + text.size(), entry.parent);
  return entry;
}

std::filesystem::path folder_of(pid_t process) {
  return std::filesystem::path("/proc") / std::to_string(process);
}

// All below this process that is below no living worker.
std::map<pid_t, Entry> find_orphans() {
  std::map<pid_t, Entry> all, orphans;
  std::error_code gone;
  for (std::filesystem::directory_iterator place("/proc", gone), end; !gone && place != end;
       place.increment(gone)) {
    const pid_t process = std::atoi(place->path().filename().c_str());
    if (process <= 0) continue;
    if (const std::optional<Entry> entry = entry_of(place->path())) all.emplace(process, *entry);
  }
  for (bool more = true; more;) {
    more = false;
    for (const auto& [process, entry] : all)
      if ((entry.parent == getpid() ? !living().contains(process)
                                    : orphans.contains(entry.parent)) &&
          orphans.emplace(process, entry).second)
        more = true;
  }
  return orphans;
}

// By a descriptor that is the process's before its parent is looked at: its number may be another's
// after. Where the kernel gives none (before Linux 5.3), nothing is killed.
bool kill_orphan(pid_t process, pid_t parent) {
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) return false;
  const std::optional<Entry> now = entry_of(folder_of(process));
  const bool killed = now && (now->parent == parent || now->parent == getpid()) &&
                      syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0) == 0;
  close(descriptor);
  return killed;
}

}  // namespace

void keep_descendants() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

pid_t fork_worker() {
  const std::lock_guard lock(mutex_of_living());
  // A shell that became this program may have started others before: they are none of the workers'.
  static const bool first = [] {
    for (const auto& [process, entry] : find_orphans()) living().insert(process);
    keep_descendants();
    return true;
  }();
  static_cast<void>(first);
  const pid_t child = fork();
  if (child > 0) living().insert(child);
  return child;
}

void kill_orphans(pid_t worker) {
  const std::lock_guard lock(mutex_of_living());
  living().erase(worker);
  // Again while there are any: one may just have started another.
  constexpr int kMostRounds = 100;
  for (int round = 0; round < kMostRounds; ++round) {
    bool found = false;
    for (const auto& [process, entry] : find_orphans())
      // What has ended and cannot be waited for yet has threads that run.
      if (!entry.has_ended || (entry.parent == getpid() && waitpid(process, nullptr, WNOHANG) == 0))
        found = kill_orphan(process, entry.parent) || found;
    if (!found) return;
    poll(nullptr, 0, 1);
  }
}

}  // namespace mlacheck
