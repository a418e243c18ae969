#pragma once

#include <csignal>
#include <functional>
#include <string_view>
#include <vector>

namespace mlacheck {

// Signals while a long run is under way; what they did before is back afterwards. One at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // Whether Ctrl-C or SIGTERM has asked to end: no kernel is called any more, and what checks say
  // since then is not to be believed. The second one ends the program and all kernels at once.
  static bool requested();
  // Does the work on a thread of its own, and throws what it throws. False where a signal came
  // first: the work, which cannot be stopped, goes on with what it was given, and end_at_once() is
  // what is left.
  bool finishes(std::function<void()> work) const;
  // Ends the program and all kernels, whatever other threads do.
  [[noreturn]] static void end_at_once(int code);
  // What to write to stderr if the program dies of a signal.
  static void set_last_words(std::string_view words);

 private:
  void handle(int signal, void (*handler)(int), int flags);

  struct Handled {
    int signal;
    struct sigaction before;
  };
  std::vector<Handled> handled_;
};

}  // namespace mlacheck
