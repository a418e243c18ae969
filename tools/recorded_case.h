#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cuda/plugin/kernel_call.h"
#include "fixtures/case.h"
#include "fixtures/device_record.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// The case of a request, as device records need it: of any operator.
class RecordedCase {
 public:
  explicit RecordedCase(const RecordRequest& request);

  std::int32_t op() const;  // mlacheck_operator
  const std::string& input_hash() const { return input_hash_; }

  // Leaves the given rows, ascending; what they point to stays where it is.
  void keep_rows(std::span<const std::int64_t> rows);

  std::unique_ptr<KernelCall> make_call() const;
  // A call's outputs, in the order of record_layout.
  DeviceOutputs outputs_of(const KernelCall& call) const;
  // Against the oracle, by the kernel's contract.
  std::vector<Finding> judge(const KernelCall& call, const mlacheck_kernel& kernel) const;

 private:
  RecordMode mode_;
  std::variant<SparseAttentionCase, IndexScoresCase, TopKCase> case_;
  std::string input_hash_;
};

// Multiplications that the emulator makes for a row, or what takes it as long: about 10^9 in a
// second.
std::int64_t emulated_products_of_row(const Recipe& recipe);
// Whether a row's bits depend on the row alone, so that some rows stand for others.
bool has_independent_rows(const RecordRequest& request);

}  // namespace mlacheck
