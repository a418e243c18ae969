#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mlacheck {

// A process that answers packets (worker_socket.h). What it prints goes to stderr. It leads a
// process group that is killed with it, as is what a kernel started outside of the group
// (orphans.h); and it does not outlive this process, however that ends.
class WorkerProcess {
 public:
  using Clock = std::chrono::steady_clock;

  struct Reply {
    enum class Kind { answer, ended, timed_out };
    Kind kind = Kind::ended;
    std::string text;  // the answer, or how it ended: "killed by signal 6 (Aborted)"
    bool killed = false;
  };

  // Starts the command, a program by its path or on the PATH, with the number of its socket as one
  // more argument. Throws std::system_error, naming the program, when it cannot be started.
  explicit WorkerProcess(std::span<const std::string> command);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // False when it takes nothing in: `receive` says why.
  bool send(std::string_view text, int file_descriptor);
  Reply receive(Clock::time_point deadline);
  // Something that nobody asked for, or its end; nothing while it waits for a request as it should.
  std::optional<Reply> unasked();
  struct Ending {  // of a process that was asked to
    Clock::time_point deadline;
    std::chrono::milliseconds patience;
  };
  Ending ask_to_end(std::chrono::milliseconds patience);
  // What was wrong with its end: empty for an exit status of 0.
  std::string finish(const Ending& ending);

 private:
  bool has_ended() const;
  bool ends_by(Clock::time_point deadline) const;
  Reply end();
  std::optional<Reply> poll_reply();

  int socket_ = -1;
  pid_t child_ = 0;  // 0: ended and waited for
};

// /dev/null for those of stdin, stdout and stderr that are closed, so that no other file becomes
// one of them.
void open_standard_streams();

}  // namespace mlacheck
