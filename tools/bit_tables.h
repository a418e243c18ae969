#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fixtures/case.h"

namespace mlacheck {

// A building block of the reference on inputs of its own, for what recipes do not reach or only
// touch: functions over evenly spread arguments, conversions, cache records, the tensor-core step.
struct BitTable {
  std::string name;
  std::vector<Tensor> (*make)(const BitTable& table);
  bool every_set = false;  // to be made under every InstructionSet
  int variant = 0;         // of tables that share a maker
};

// All of them, in the order of the file.
const std::vector<BitTable>& bit_tables();

// Throws std::invalid_argument for a name that is none.
const BitTable& bit_table(std::string_view name);

}  // namespace mlacheck
