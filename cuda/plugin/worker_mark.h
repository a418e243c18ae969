#pragma once

#include <string>

namespace mlacheck {

// A variable in the environment of a worker, and so of all that its kernels start, whatever session or
// parent these have moved to.
class WorkerMark {
 public:
  WorkerMark();  // another one each time
  const std::string& variable() const { return variable_; }
  // Kills whatever has it; not the processes of others, which nobody can look into.
  void kill_all() const;

 private:
  std::string variable_;  // "MLACHECK_WORKER=" and 128 random bits: other namespaces count alike
};

}  // namespace mlacheck
