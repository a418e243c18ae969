#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cuda/plugin/kernel_worker.h"
#include "tools/commands.h"

namespace mlacheck {

// Internal: the process in which a kernel runs (cuda/plugin/kernel_worker.h).
void add_worker(CLI::App& app, Action& action) {
  struct Options {
    int descriptor = -1;
    std::string library;
    std::string kernel;
    std::string task = "run";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("worker", "Internal: makes one call of a kernel");
  command->group("");
  command->add_option("descriptor", options->descriptor)->required();
  command->add_option("library", options->library)->required();
  command->add_option("kernel", options->kernel)->required();
  command->add_option("task", options->task)->check(CLI::IsMember({"run", "supports"}));
  command->callback([options, &action] {
    action = [options] {
      return serve_call(options->descriptor, options->library, options->kernel,
                        options->task == "supports" ? WorkerTask::supports : WorkerTask::run);
    };
  });
}

}  // namespace mlacheck
