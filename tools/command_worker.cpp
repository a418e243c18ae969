#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cuda/plugin/kernel_worker.h"
#include "cuda/plugin/library_description.h"
#include "tools/commands.h"

namespace mlacheck {

// Internal: the process in which a kernel library is loaded and run (cuda/plugin/worker_process.h).
void add_worker(CLI::App& app, Action& action) {
  struct Options {
    std::string task;
    int descriptor = -1;
    std::string library;
    std::string kernel;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("worker", "Internal: describes a kernel library or makes one call");
  command->group("");
  command->add_option("task", options->task)
      ->required()
      ->check(CLI::IsMember({"describe", "run", "time", "supports"}));
  command->add_option("descriptor", options->descriptor)->required();
  command->add_option("library", options->library)->required();
  command->add_option("kernel", options->kernel);
  command->callback([options, &action] {
    action = [options] {
      const Options& o = *options;
      if (o.task == "describe") return serve_description(o.descriptor, o.library);
      const WorkerTask task = o.task == "run"    ? WorkerTask::run
                              : o.task == "time" ? WorkerTask::time
                                                 : WorkerTask::supports;
      return serve_call(o.descriptor, o.library, o.kernel, task);
    };
  });
}

}  // namespace mlacheck
