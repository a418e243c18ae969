#include "cuda/plugin/orphans.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

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

// A shell that became this program may have started others before the first worker: they are none
// of the workers'. Null before it.
std::atomic<const std::vector<pid_t>*> started_before = nullptr;
static_assert(std::atomic<const std::vector<pid_t>*>::is_always_lock_free);

bool is_of_before(pid_t child) {
  const std::vector<pid_t>& before = *started_before.load();
  return std::ranges::find(before, child) != before.end();
}

// From "<pid> (<name>) <state> <parent> ...", where the name may hold anything. 0: it is gone.
pid_t parent_of(int proc, const char* process) {
  std::array<char, sizeof(dirent64::d_name) + sizeof("/stat")> path = {};
  stpcpy(stpcpy(path.data(), process), "/stat");
  const int file = openat(proc, path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 512> begin = {};
  const ssize_t got = read(file, begin.data(), begin.size());
  close(file);
  const std::string_view text(begin.data(), static_cast<std::size_t>(std::max(got, ssize_t{0})));
  const std::size_t name_end = text.rfind(") ");
  pid_t parent = 0;
  if (name_end != std::string_view::npos && name_end + 4 < text.size())
    std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

// Every child of this process, by what a signal's handler may call. Its number is no other's until
// this process has waited for it.
template <class Visit>
void for_each_child(const Visit& visit) {
  const int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return;
  alignas(dirent64) std::array<char, 8192> entries = {};
  for (ssize_t got = 0; (got = getdents64(proc, entries.data(), entries.size())) > 0;)
    for (ssize_t at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      pid_t process = 0;
      std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), process);
      if (process > 0 && parent_of(proc, entry->d_name) == getpid()) visit(process);
    }
  close(proc);
}

// Kills the children, but for those that are spared, with their groups, and what falls to this
// process from them, which is waited for by others where `options` is WNOWAIT.
template <class Spared>
void kill_children(const Spared& spared, int options, int most_rounds) {
  for (int round = 0, clean = 0; round < most_rounds && clean < 2; ++round) {
    bool any = false, all_ended = true;
    for_each_child([&](pid_t child) {
      if (spared(child)) return;
      any = true;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
      siginfo_t info = {};
      const int ended = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | options);
      all_ended = all_ended && ended == 0 && info.si_pid == child;
    });
    if (!any) return;
    // What has ended may have left others meanwhile.
    clean = all_ended ? clean + 1 : 0;
    if (!all_ended) poll(nullptr, 0, 1);
  }
}

void end_with_descendants(int signal) {
  kill_descendants();
  // Then what the signal does by itself.
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void handle_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = end_with_descendants;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void keep_descendants() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

pid_t fork_worker() {
  const std::lock_guard lock(mutex_of_living());
  if (started_before.load() == nullptr) {
    auto& before = *new std::vector<pid_t>;
    for_each_child([&](pid_t child) { before.push_back(child); });
    started_before = &before;
    keep_descendants();
    handle_signals();
  }
  const pid_t child = fork();
  if (child > 0) living().insert(child);
  return child;
}

void kill_orphans(pid_t worker) {
  constexpr int kMostRounds = 100;
  const std::lock_guard lock(mutex_of_living());
  living().erase(worker);
  kill_children([](pid_t child) { return living().contains(child) || is_of_before(child); }, 0,
                kMostRounds);
}

void kill_descendants() {
  constexpr int kMostRounds = 2000;  // a process that holds a GPU takes its time to end
  if (started_before.load() != nullptr) kill_children(is_of_before, WNOWAIT, kMostRounds);
}

}  // namespace mlacheck
