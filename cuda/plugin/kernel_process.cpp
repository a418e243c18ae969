#include "cuda/plugin/kernel_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "cuda/plugin/foreign_text.h"

namespace mlacheck {

namespace {

using AnswerKind = WorkerAnswer::Kind;

std::string without_answer(const WorkerProcess::Reply& end) {
  return end.killed && end.text.starts_with("killed") ? end.text : end.text + " without an answer";
}

}  // namespace

KernelProcess::KernelProcess(std::span<const std::string> command, std::chrono::seconds timeout)
    : process_(command) {
  const WorkerProcess::Reply reply = process_.receive(WorkerProcess::Clock::now() + timeout);
  if (reply.kind == WorkerProcess::Reply::Kind::answer && reply.text == kWorkerGreeting) return;
  const std::string got = reply.kind == WorkerProcess::Reply::Kind::ended ? reply.text
                          : reply.kind == WorkerProcess::Reply::Kind::timed_out
                              ? fmt::format("says nothing in {} s", timeout.count())
                              : fmt::format("says '{}'", shown(reply.text));
  throw std::runtime_error(
      fmt::format("the worker program {} {}, expected '{}'", command[0], got, kWorkerGreeting));
}

WorkerAnswer KernelProcess::ask(std::string_view task, std::string_view kernel, int file_descriptor,
                                std::chrono::seconds timeout) {
  const std::string number = fmt::format("{} ", ++requests_);
  const auto deadline = WorkerProcess::Clock::now() + timeout;
  process_.send(fmt::format("{}{}{}{}", number, task, kernel.empty() ? "" : " ", kernel),
                file_descriptor);
  const WorkerProcess::Reply reply = process_.receive(deadline);
  if (reply.kind == WorkerProcess::Reply::Kind::timed_out)
    return {AnswerKind::timed_out, fmt::format("no answer in {} s", timeout.count()), true};
  if (reply.kind == WorkerProcess::Reply::Kind::ended)
    return {AnswerKind::ended, without_answer(reply), reply.killed};

  std::string_view text = reply.text;
  static constexpr std::array<std::pair<std::string_view, AnswerKind>, 3> kKinds = {
      {{"done", AnswerKind::done},
       {"refused", AnswerKind::refused},
       {"failed", AnswerKind::failed}}};
  if (text.starts_with(number)) {
    text.remove_prefix(number.size());
    const std::size_t word = std::min(text.find(' '), text.size());
    for (const auto& [name, kind] : kKinds)
      if (text.substr(0, word) == name)
        return {kind, std::string(text.substr(std::min(word + 1, text.size()))), false};
  }
  return {AnswerKind::broken, fmt::format("a broken answer: '{}'", shown(reply.text)), false};
}

WorkerProcess::Ending KernelProcess::ask_to_end(std::chrono::milliseconds patience) {
  flaw_ = flaw_between_calls();
  return process_.ask_to_end(patience);
}

std::string KernelProcess::finish(const WorkerProcess::Ending& ending) {
  return flaw_.empty() ? process_.finish(ending) : flaw_;
}

std::string KernelProcess::flaw_between_calls() {
  const std::optional<WorkerProcess::Reply> reply = process_.unasked();
  if (!reply) return "";
  if (reply->kind == WorkerProcess::Reply::Kind::ended) return without_answer(*reply);
  return fmt::format("a broken answer: '{}'", shown(reply->text));
}

}  // namespace mlacheck
