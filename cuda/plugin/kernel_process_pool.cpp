#include "cuda/plugin/kernel_process_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/library_description.h"

namespace mlacheck {

KernelService service_by(const std::filesystem::path& program, const std::filesystem::path& library,
                         std::chrono::seconds call_timeout, std::chrono::seconds load_timeout) {
  return {library,
          {program.string(), "worker", "--", std::filesystem::absolute(library).string()},
          call_timeout,
          load_timeout};
}

std::unique_ptr<LoadedProcess> KernelProcessPool::take(bool fresh) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& process) {
      return !fresh || process->calls == 0;
    });
    if (found != idle_.rend()) {
      std::unique_ptr<LoadedProcess> process = std::move(*found);
      idle_.erase(std::next(found).base());
      return process;
    }
  }
  return start(memory_for_description());
}

void KernelProcessPool::give_back(std::unique_ptr<LoadedProcess> process) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(process));
}

std::vector<std::string> KernelProcessPool::finish(std::chrono::milliseconds patience) {
  std::vector<std::unique_ptr<LoadedProcess>> ending;
  {
    const std::lock_guard lock(mutex_);
    ending.swap(idle_);
  }
  std::vector<WorkerProcess::Ending> asked;
  for (const auto& process : ending) asked.push_back(process->process.ask_to_end(patience));
  std::vector<std::string> flaws;
  for (std::size_t i = 0; i < ending.size(); ++i) {
    const std::string flaw = ending[i]->process.finish(asked[i]);
    if (!flaw.empty() && std::ranges::find(flaws, flaw) == flaws.end()) flaws.push_back(flaw);
  }
  return flaws;
}

std::unique_ptr<LoadedProcess> KernelProcessPool::start(const SharedMemory& description) {
  using Kind = WorkerAnswer::Kind;
  auto loaded = std::make_unique<LoadedProcess>(service_);
  const WorkerAnswer answer =
      loaded->process.ask("describe", "", description.file_descriptor(), service_.load_timeout);
  const auto refuse = [&](const std::string& what) {
    throw KernelLibraryError(fmt::format("{}: {}", service_.library.string(), what));
  };
  if (answer.kind == Kind::timed_out)
    refuse(fmt::format("is not loaded after {} s", service_.load_timeout.count()));
  if (answer.kind == Kind::ended)
    refuse(fmt::format("{} when it is loaded: {}", answer.killed ? "crashes" : "ends the process",
                       answer.text));
  if (answer.kind == Kind::refused) throw KernelLibraryError(answer.text);  // which names it
  if (answer.kind == Kind::broken) refuse("gives " + answer.text);
  if (answer.kind == Kind::failed) refuse(answer.text);
  return loaded;
}

}  // namespace mlacheck
