// mlacheck: does this kernel compute the operator?

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/plugin/worker_process.h"
#include "reference/verdict/verdict.h"
#include "tools/commands.h"
#include "tools/mapped_file_fault.h"
#include "tools/report.h"

namespace {

// What the command ends with: with an error where its report or help did not reach standard output
// (a full disk, or none).
int finish(int code, bool closed) {
  if (!closed && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  mlacheck::print_error("standard output could not be written");
  return mlacheck::with_error(code);
}

// What is empty (--json "$FILE" of a variable that is not set) names nothing.
void require_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        throw std::invalid_argument(fmt::format("{}: expected a value, got ''; it is: {}",
                                                option->get_name(), option->get_description()));
  for (const CLI::App* inner : command.get_subcommands()) require_values(*inner);
}

}  // namespace

int main(int argc, char** argv) {
  const bool closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
  mlacheck::open_standard_streams();
  mlacheck::report_mapped_file_faults();
  // A reader of stdout that has gone is an error as a full disk is. To handle the signal, not to
  // ignore it: what is started is to have its default.
  std::signal(SIGPIPE, [](int) {});
  CLI::App app("Correctness gate for sparse MLA attention with the DSA lightning indexer.",
               "mlacheck");
  app.set_version_flag("--version", std::string("mlacheck ") + MLACHECK_VERSION);
  app.require_subcommand(1);
  app.footer(mlacheck::kExitCodeHelp);

  mlacheck::Action action;
  mlacheck::add_gate(app, action);
  mlacheck::add_museum(app, action);
  mlacheck::add_run(app, action);
  mlacheck::add_fuzz(app, action);
  mlacheck::add_golden(app, action);
  mlacheck::add_oracle(app, action);
  mlacheck::add_bench(app, action);
  mlacheck::add_kernels(app, action);
  mlacheck::add_worker(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 tells that a command is missing where there is one that it does not know.
    const std::vector<std::string> rest = app.remaining(true);
    const bool missing = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
    if (missing && !rest.empty() && !rest[0].starts_with('-')) {
      mlacheck::print_error(
          fmt::format("there is no command '{}'; mlacheck --help lists them", rest[0]));
      return mlacheck::kExitUsage;
    }
    return app.exit(error) == 0 ? finish(mlacheck::kExitPass, closed) : mlacheck::kExitUsage;
  }
  try {
    require_values(app);
    return finish(action(), closed);
  } catch (const std::invalid_argument& error) {
    mlacheck::print_error(error.what());
    return mlacheck::kExitUsage;
  } catch (const std::exception& error) {
    mlacheck::print_error(error.what());
    return mlacheck::kExitHarness;
  }
}
