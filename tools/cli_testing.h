#pragma once

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/temporary_folder.h"

// Runs the built program as its users do. MLACHECK_PROGRAM is its path.
namespace mlacheck::testing {

using Arguments = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

struct Outcome {
  int code = -1;  // exit status; 128 + signal when it was killed
  std::string out;
  std::string err;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// In the child: becomes the program. Variables that change what it prints are unset first.
[[noreturn]] inline void become_mlacheck(const Arguments& arguments,
                                         const Environment& environment) {
  for (const char* name : {"CI", "NO_COLOR", "GITHUB_ACTIONS"}) unsetenv(name);
  setenv("OMP_NUM_THREADS", "1", 1);  // small cases, and other tests beside this one
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words = {const_cast<char*>(MLACHECK_PROGRAM)};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(MLACHECK_PROGRAM, words.data());
  _exit(126);
}

inline int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

inline Outcome mlacheck(const Arguments& arguments, const Environment& environment = {}) {
  const TemporaryFolder folder;
  const std::filesystem::path out = folder / "out", err = folder / "err";
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen(out.c_str(), "w", stdout) == nullptr ||
        std::freopen(err.c_str(), "w", stderr) == nullptr)
      _exit(125);
    become_mlacheck(arguments, environment);
  }
  const int code = wait_for(child);
  return {code, read_file(out), read_file(err)};
}

// The same where nobody reads what it prints: its exit status.
inline int mlacheck_unread(const Arguments& arguments) {
  std::array<int, 2> ends = {};
  if (pipe(ends.data()) != 0) return -1;
  close(ends[0]);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGPIPE, SIG_DFL);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    become_mlacheck(arguments, {});
  }
  close(ends[1]);
  return wait_for(child);
}

// The same on a terminal of 80 columns; both streams are in `out`.
inline Outcome mlacheck_on_terminal(const Arguments& arguments,
                                    const Environment& environment = {}) {
  Outcome outcome;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) become_mlacheck(arguments, environment);
  char buffer[4096];
  // A pseudo-terminal whose other side is closed reads as an error.
  for (ssize_t n = 0; (n = read(terminal, buffer, sizeof(buffer))) > 0;)
    outcome.out.append(buffer, static_cast<std::size_t>(n));
  close(terminal);
  outcome.code = wait_for(child);
  return outcome;
}

// The checks of a --json file: status by name.
inline std::map<std::string, std::string> statuses(const std::filesystem::path& json) {
  std::map<std::string, std::string> found;
  const nlohmann::json document = nlohmann::json::parse(read_file(json));
  for (const nlohmann::json& check : document.at("checks"))
    found[check.at("name").get<std::string>()] = check.at("status").get<std::string>();
  return found;
}

// Every file under a folder with its content.
inline std::map<std::string, std::string> content_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    content[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path()) : "";
  return content;
}

}  // namespace mlacheck::testing
