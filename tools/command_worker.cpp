#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <string>

#include "cuda/plugin/kernel_server.h"
#include "tools/commands.h"

namespace mlacheck {

// Internal: the process in which a kernel library is loaded and run (cuda/plugin/PROTOCOL.md).
void add_worker(CLI::App& app, Action& action) {
  struct Options {
    std::string library;
    int socket = -1;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("worker", "Internal: serves the kernels of a library");
  command->group("");
  command->add_option("library", options->library)->required();
  command->add_option("socket", options->socket)->required();
  command->callback([options, &action] {
    action = [options]() -> int {
      std::signal(SIGPIPE, SIG_DFL);  // as in a kernel's own program
      serve_kernels(options->socket, options->library);
    };
  });
}

}  // namespace mlacheck
