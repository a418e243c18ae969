#pragma once

#include <chrono>
#include <filesystem>
#include <span>
#include <string>

namespace mlacheck {

// How a worker process ended.
struct WorkerEnd {
  bool timed_out = false;
  int status = 0;  // waitpid's

  // By end_worker with this answer: a kernel that leaves by itself is none.
  bool answered(int answer) const;
  bool killed() const;
  // "killed by signal 6 (Aborted)", "ended with exit status 0"
  std::string words() const;
};

// Runs `program worker -- ARGUMENTS`. The worker inherits the file descriptor; what it prints goes
// to stderr. It is the leader of a process group that is killed when it ends or when the time is
// up, with whatever a kernel forked; and it does not outlive this process, however that ends.
// Throws std::system_error, naming the program, when it cannot be started.
WorkerEnd run_worker(const std::filesystem::path& program, std::span<const std::string> arguments,
                     int file_descriptor, std::chrono::seconds timeout);

// The end of a worker: flushes what a kernel printed, and runs no destructor or exit handler of
// its library, which are no business of an answer that is there.
[[noreturn]] void end_worker(int answer);

// /dev/null for those of stdin, stdout and stderr that are closed, so that no other file becomes
// one of them.
void open_standard_streams();

}  // namespace mlacheck
