#include "cuda/plugin/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "cuda/plugin/call_stop.h"
#include "cuda/plugin/lasting_thread.h"
#include "cuda/plugin/orphans.h"
#include "cuda/plugin/worker_socket.h"

namespace mlacheck {

namespace {

using std::chrono::milliseconds;

// How long an end may go unseen where what a kernel forked still holds the socket.
constexpr milliseconds kLook{20};
// How long a process that has closed its socket has to end.
constexpr std::chrono::seconds kLastWords{1};

// In the child, where only what is safe in a signal handler may be called.
[[noreturn]] void become(const char* const* arguments, const char* const* environment, int socket,
                         pid_t parent, int report) {
  setpgid(0, 0);
  // What the user types is for nobody here.
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
  keep_descendants();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);   // it ended before it could be waited for
  fcntl(socket, F_SETFD, 0);           // survives the exec of this child alone
  dup2(STDERR_FILENO, STDOUT_FILENO);  // what a kernel prints is no part of the report
  execvpe(arguments[0], const_cast<char* const*>(arguments), const_cast<char* const*>(environment));
  const int error = errno;
  const ssize_t written = write(report, &error, sizeof(error));
  _exit(written == sizeof(error) ? 127 : 126);
}

// This process's. Threads of OpenMP that wait are not to hold the cores meanwhile: this process
// needs them between the calls.
std::vector<const char*> environment_of_worker() {
  std::vector<const char*> variables;
  if (getenv("OMP_WAIT_POLICY") == nullptr) variables.push_back("OMP_WAIT_POLICY=passive");
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(nullptr);
  return variables;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "waiting for a kernel worker");
  return status;
}

// The number of the error that a child's exec met; 0 when it went well.
int exec_error(int report) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(report, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

std::string words(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
}

}  // namespace

WorkerProcess::WorkerProcess(std::span<const std::string> command) {
  std::array<int, 2> sockets = {}, report = {};  // the report is closed by an exec that goes well
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "a socket to a kernel worker");
  socket_ = sockets[0];
  if (pipe2(report.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    close(sockets[0]);
    close(sockets[1]);
    throw std::system_error(error, std::generic_category(), "a pipe to a kernel worker");
  }
  const std::string number = std::to_string(sockets[1]);
  std::vector<const char*> argv;
  for (const std::string& argument : command) argv.push_back(argument.c_str());
  argv.insert(argv.end(), {number.c_str(), nullptr});
  const std::vector<const char*> environment = environment_of_worker();
  const pid_t parent = getpid();
  int error = 0;
  // A child is killed when the thread that forked it ends, not only with its process.
  on_lasting_thread([&] {
    child_ = fork_worker();
    if (child_ == 0) become(argv.data(), environment.data(), sockets[1], parent, report[1]);
    error = errno;
  });
  close(sockets[1]);
  close(report[1]);
  if (child_ > 0) {
    setpgid(child_, child_);  // whoever of the two is first
    error = exec_error(report[0]);
    if (error != 0) end();
  }
  close(report[0]);
  if (error == 0) return;
  close(socket_);
  throw std::system_error(error, std::generic_category(),
                          fmt::format("cannot start the worker program {}", command[0]));
}

WorkerProcess::~WorkerProcess() {
  if (child_ > 0) end();
  close(socket_);
}

bool WorkerProcess::send(std::string_view text, int file_descriptor) {
  return child_ > 0 && send_packet(socket_, text, file_descriptor);
}

WorkerProcess::Reply WorkerProcess::receive(Clock::time_point deadline) {
  while (child_ > 0) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) {
      end();
      return {Reply::Kind::timed_out, "", true};
    }
    pollfd file = {socket_, POLLIN, 0};
    poll(&file, 1, static_cast<int>(std::min(left, kLook).count()));
    if (std::optional<Reply> reply = poll_reply()) return *reply;
    if (!calls_stopped()) continue;
    end();
    return {Reply::Kind::ended, "stopped", true};
  }
  return {Reply::Kind::ended, "has ended", false};
}

std::optional<WorkerProcess::Reply> WorkerProcess::unasked() {
  if (child_ <= 0) return Reply{Reply::Kind::ended, "has ended", false};
  return poll_reply();
}

std::optional<WorkerProcess::Reply> WorkerProcess::poll_reply() {
  // First whether it has ended: an answer that it has left behind comes before its end.
  const bool ended = has_ended();
  const std::optional<std::string> packet = receive_packet(socket_);
  if (packet && !packet->empty()) return Reply{Reply::Kind::answer, *packet, false};
  if (ended) return end();
  if (!packet) return std::nullopt;
  // It has closed its socket, which is what happens first when it ends.
  if (ends_by(Clock::now() + kLastWords)) return end();
  end();
  return Reply{Reply::Kind::ended, "closed its socket", true};
}

WorkerProcess::Ending WorkerProcess::ask_to_end(milliseconds patience) {
  shutdown(socket_, SHUT_WR);
  return {Clock::now() + patience, patience};
}

std::string WorkerProcess::finish(const Ending& ending) {
  if (child_ <= 0) return "has ended";
  const bool ended = ends_by(ending.deadline);
  const Reply reply = end();
  if (!ended)
    return fmt::format("has not ended {} ms after it was asked to", ending.patience.count());
  return reply.text == words(0) ? "" : reply.text;
}

bool WorkerProcess::ends_by(Clock::time_point deadline) const {
  for (; !has_ended(); poll(nullptr, 0, 1))
    if (Clock::now() >= deadline || calls_stopped()) return false;
  return true;
}

// It stays to be waited for, so that its number is not reused.
bool WorkerProcess::has_ended() const {
  siginfo_t info = {};
  const int flags = WEXITED | WNOHANG | WNOWAIT;
  return waitid(P_PID, static_cast<id_t>(child_), &info, flags) == 0 && info.si_pid == child_;
}

WorkerProcess::Reply WorkerProcess::end() {
  kill(-child_, SIGKILL);
  kill(child_, SIGKILL);  // where it could make no group
  const int status = wait_for(child_);
  kill_orphans(std::exchange(child_, 0));
  return {Reply::Kind::ended, words(status), WIFSIGNALED(status)};
}

void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
}

}  // namespace mlacheck
