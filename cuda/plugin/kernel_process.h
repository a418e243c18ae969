#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cuda/plugin/worker_process.h"

namespace mlacheck {

inline constexpr std::string_view kWorkerGreeting = "mlacheck-worker 1";

// What came of a request.
struct WorkerAnswer {
  // broken: nobody can tell what the process says. ended, timed_out: it is no more.
  enum class Kind { done, refused, failed, broken, ended, timed_out };
  Kind kind = Kind::ended;
  std::string text;  // what follows the answer's kind; else what is wrong: "killed by signal 6 ..."
  bool killed = false;
};

// A worker process that speaks the protocol of PROTOCOL.md.
class KernelProcess {
 public:
  // Starts the command and waits for its greeting. Throws std::runtime_error, naming the program,
  // when there is none.
  KernelProcess(std::span<const std::string> command, std::chrono::seconds timeout);

  WorkerAnswer ask(std::string_view task, std::string_view kernel, int file_descriptor,
                   std::chrono::seconds timeout);
  // What is wrong with a process that nobody has asked anything; empty when nothing is.
  std::string flaw_between_calls();
  WorkerProcess::Ending ask_to_end(std::chrono::milliseconds patience);
  // What is wrong with its end; empty when nothing is.
  std::string finish(const WorkerProcess::Ending& ending);

 private:
  WorkerProcess process_;
  std::int64_t requests_ = 0;
  std::string flaw_;  // when it was asked to end
};

}  // namespace mlacheck
