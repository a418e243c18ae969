#include "tools/interruption.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "cuda/plugin/call_stop.h"
#include "cuda/plugin/orphans.h"

namespace mlacheck {

namespace {

// Read by a signal's handler: never freed, always terminated.
std::array<char, 8192> last_words = {};

// Calls are stopped for other reasons too (call_deadline.h).
std::atomic<bool> told = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void request_stop(int signal) {
  if (!told.exchange(true)) {
    stop_calls();
    return;
  }
  kill_descendants();
  ::signal(signal, SIG_DFL);
  raise(signal);
}

// Its action is the default again: the signal that it sends itself ends the program.
void die(int signal) {
  const std::size_t length = strnlen(last_words.data(), last_words.size());
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, last_words.data(), length);
  raise(signal);
}

}  // namespace

void Interruption::handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | flags;
  struct sigaction before = {};
  sigaction(signal, &action, &before);
  handled_.push_back({signal, before});
}

Interruption::Interruption() {
  resume_calls();
  told = false;
  last_words[0] = '\0';
  for (const int signal : {SIGINT, SIGTERM}) handle(signal, request_stop, 0);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    handle(signal, die, static_cast<int>(SA_RESETHAND));
}

Interruption::~Interruption() {
  for (const Handled& handled : handled_) sigaction(handled.signal, &handled.before, nullptr);
  resume_calls();
  told = false;
}

bool Interruption::requested() { return told; }

bool Interruption::finishes(std::function<void()> work) const {
  constexpr std::chrono::milliseconds kInterval{10};
  std::packaged_task<void()> task(std::move(work));
  std::future<void> end = task.get_future();
  std::thread thread(std::move(task));
  while (end.wait_for(kInterval) != std::future_status::ready) {
    if (!requested()) continue;
    thread.detach();
    return false;
  }
  thread.join();
  end.get();
  return true;
}

void Interruption::end_at_once(int code) {
  std::fflush(stdout);
  kill_descendants();
  std::_Exit(code);
}

void Interruption::set_last_words(std::string_view words) {
  const std::size_t length = std::min(words.size(), last_words.size() - 1);
  last_words[0] = '\0';
  std::copy_n(words.data(), length, last_words.data());
  last_words[length] = '\0';
}

}  // namespace mlacheck
