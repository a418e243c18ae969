#include "cuda/plugin/kernel_worker.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "cuda/plugin/call_stop.h"
#include "cuda/plugin/foreign_text.h"
#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_process_pool.h"

namespace mlacheck {

namespace {

using Kind = CallOutcome::Kind;

// Takes a number of the answer off its front; false when there is none. Written by a process that a
// foreign library has run in.
template <class T>
bool take_number(std::string_view& text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(static_cast<double>(number)) || number < 0)
    return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  return true;
}

// "done SECONDS", timed also "IN_GRAPH SINGLE GRAPH_CALLS WORKSPACE"; supports: "done" alone.
CallOutcome done(std::string_view text, std::string_view task) {
  const std::string all(text);
  CallOutcome outcome = {.kind = Kind::done, .detail = ""};
  bool is_right = task == "supports" || take_number(text, outcome.seconds);
  if (task == "time")
    is_right = is_right && take_number(text, outcome.times.in_graph) &&
               take_number(text, outcome.times.single) &&
               take_number(text, outcome.times.graph_calls) &&
               take_number(text, outcome.workspace_bytes);
  if (is_right && text.empty()) return outcome;
  return {.kind = Kind::crashed, .detail = fmt::format("a broken answer: 'done {}'", shown(all))};
}

CallOutcome outcome_of(const WorkerAnswer& answer, std::string_view task) {
  switch (answer.kind) {
    case WorkerAnswer::Kind::done:
      return done(answer.text, task);
    case WorkerAnswer::Kind::timed_out:
      return {.kind = Kind::timed_out, .detail = answer.text};
    case WorkerAnswer::Kind::broken:
    case WorkerAnswer::Kind::ended:
      return {.kind = Kind::crashed, .detail = answer.text};
    case WorkerAnswer::Kind::refused:
    case WorkerAnswer::Kind::failed:
      break;
  }
  return {.kind = answer.kind == WorkerAnswer::Kind::refused ? Kind::refused : Kind::failed,
          .detail = answer.text.empty() ? "gave no reason" : answer.text};
}

CallOutcome in_worker(const KernelCall& call, const KernelTarget& target, std::string_view task,
                      bool fresh) {
  KernelProcessPool& pool = *target.processes;
  if (pool.hangs() >= kMostHangs)
    return {.kind = Kind::not_called,
            .detail = fmt::format("not called again: its library hung {} times", kMostHangs)};
  CallOutcome stopped = {.kind = Kind::not_called, .detail = "stopped by a signal"};
  if (calls_stopped()) return stopped;
  std::unique_ptr<LoadedProcess> process;
  try {
    process = pool.take(fresh);
  } catch (const std::runtime_error& error) {
    if (calls_stopped()) return stopped;
    if (dynamic_cast<const KernelLibraryError*>(&error) == nullptr) throw;
    return {.kind = Kind::crashed, .detail = error.what()};  // it has been loaded before
  }
  const std::int64_t calls_before = process->calls;
  const std::string flaw = process->process.flaw_between_calls();
  CallOutcome outcome = {.kind = Kind::crashed, .detail = flaw};
  if (flaw.empty()) {
    ++process->calls;
    outcome = outcome_of(process->process.ask(task, target.kernel, call.file_descriptor(),
                                              pool.service().call_timeout),
                         task);
  }
  outcome.calls_before = calls_before;
  if (calls_stopped()) return stopped;
  if (outcome.kind == Kind::timed_out) pool.note_hang();
  // After a failure, too: an error on a GPU stays with its process.
  if (outcome.kind != Kind::done && outcome.kind != Kind::refused) return outcome;
  if (!fresh) {
    pool.give_back(std::move(process));
    return outcome;
  }
  const std::string end = process->process.finish(process->process.ask_to_end(kEndTimeout));
  return end.empty() ? outcome
                     : CallOutcome{.kind = Kind::crashed, .detail = kAfterLastAnswer + end};
}

}  // namespace

CallOutcome run_in_worker(const KernelCall& call, const KernelTarget& target) {
  return in_worker(call, target, "run", false);
}

CallOutcome time_in_worker(const KernelCall& call, const KernelTarget& target) {
  return in_worker(call, target, "time", true);
}

CallOutcome ask_in_worker(const KernelCall& call, const KernelTarget& target) {
  return in_worker(call, target, "supports", false);
}

}  // namespace mlacheck
