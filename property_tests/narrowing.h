#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "fixtures/recipe.h"

namespace mlacheck {

// Most kernels take few types and sizes, all of them together seldom drawn by chance. This finds
// out what one takes: a small case that it supports, and then, as the generator asks, whether it
// still does with other keys in it.
class Narrowing {
 public:
  // Whether the kernel supports a recipe's problem.
  using Asks = std::function<bool(const Recipe&)>;

  // `kind`: any recipe of the operator. Nothing is narrowed where no small case is supported.
  Narrowing(const Recipe& kind, Asks supports);

  // "h=64", "q=bf16 kv=bf16": whether the kernel supports its small case with these keys. True
  // where that cannot be told: keys that contradict the small case.
  bool allows(const std::string& keys);

 private:
  std::optional<bool> is_supported(const std::string& line) const;

  Asks supports_;
  std::optional<std::string> small_;  // canonical
  std::map<std::string, bool> answers_;
};

}  // namespace mlacheck
