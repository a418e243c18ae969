#pragma once

#include <csignal>
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

  // Whether Ctrl-C or SIGTERM has asked to end: no kernel is called any more, and what checks say since
  // then is not to be believed. The second one ends the program and all kernels at once.
  static bool requested();
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
