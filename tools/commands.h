#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace mlacheck {

// What the chosen command does once the command line is read: returns the exit code.
using Action = std::function<int()>;

// At the end of the help of whatever gives verdicts.
inline constexpr const char* kExitCodeHelp =
    "Exit codes: 0 all pass (some may be SKIPPED or REFUSED), 1 verification failure, whatever\n"
    "else went wrong, 2 usage, 3 harness or I/O error, as a report that cannot be written, 4\n"
    "nothing worse than MISTRUSTED or IMPROBABLE, 77 nothing (of the kernels) ran.";

// Each adds one command; its callback sets the action.
void add_gate(CLI::App& app, Action& action);
void add_museum(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_fuzz(CLI::App& app, Action& action);
void add_golden(CLI::App& app, Action& action);
void add_golden_capture(CLI::App& golden, Action& action);
void add_golden_import(CLI::App& golden, Action& action);
void add_golden_record(CLI::App& golden, Action& action);
void add_golden_synthesize(CLI::App& golden, Action& action);
void add_oracle(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_kernels(CLI::App& app, Action& action);
void add_worker(CLI::App& app, Action& action);

}  // namespace mlacheck
