#pragma once

// Test helper: one token of H heads judged under a contract, however many kernels produce it.

#include <cstdint>
#include <vector>

#include "reference/oracle/test_problem.h"
#include "reference/verdict/check_sparse_attention.h"
#include "reference/verdict/emulated_kernel.h"

namespace mlacheck::testing {

// A kernel like those of the field on mma.sync: 16 products a step, tiles of 64, exp2 of 2^-21.
inline NumericsContract tensor_core_contract(DType weight_dtype = DType::bf16) {
  NumericsContract contract;
  contract.qk.block = contract.pv.block = 16;
  contract.tile = 64;
  contract.exp_error = 0x1p-21;
  contract.weight_dtype = weight_dtype;
  return contract;
}

// The emulated kernel that it describes.
inline Kernel tensor_core_kernel() {
  return {.block = 16, .tile = 64, .weight_dtype = DType::bf16};
}

class Judge {
 public:
  Judge(TestProblem test, const NumericsContract& contract)
      : test_(std::move(test)), rows_(test_.gathered(0)) {
    oracle_ = sparse_attention_oracle(test_.view(), 0);
    declare(contract);
  }

  void declare(const NumericsContract& contract) {
    interval_ = sparse_attention_interval(oracle_, contract);
  }

  const TestProblem& test() const { return test_; }
  const SparseAttentionInterval& interval() const { return interval_; }

  // Statuses of out and of lse, one a head.
  struct Statuses {
    std::vector<Status> out;
    std::vector<Status> lse;
    double core_ratio = 0;  // largest share of the proven bound
  };

  // `rows` replaces what the kernel gathers (a wrong address, say).
  Statuses run(const Kernel& kernel, const std::vector<float>* rows = nullptr) const {
    const auto& p = test_.problem;
    const EmulatedKernel emulated(kernel, p.qk_dim, p.v_dim);
    std::vector<Row> results(static_cast<std::size_t>(p.heads));
#pragma omp parallel for schedule(dynamic)
    for (std::int64_t h = 0; h < p.heads; ++h)
      results[static_cast<std::size_t>(h)] =
          emulated.run(test_.query(0, h), rows != nullptr ? *rows : rows_, p.sm_scale);
    return judge(results);
  }

  Statuses judge(const std::vector<Row>& results) const {
    Statuses statuses;
    for (std::size_t h = 0; h < results.size(); ++h) {
      Tally out(interval_.out_dtype), lse(DType::f32);
      const auto head = static_cast<std::int64_t>(h);
      for (std::size_t c = 0; c < results[h].out.size(); ++c)
        out.add({0, head, static_cast<std::int64_t>(c)},
                interval_.out(head, static_cast<std::int64_t>(c)), results[h].out[c]);
      lse.add({0, head, -1}, interval_.lse[h], results[h].lse);
      const Finding finding = out.finding("out");
      statuses.out.push_back(finding.status);
      statuses.lse.push_back(lse.finding("lse").status);
      statuses.core_ratio = std::max(statuses.core_ratio, finding.ratio);
    }
    return statuses;
  }

 private:
  TestProblem test_;
  std::vector<float> rows_;
  SparseAttentionOracle oracle_;
  SparseAttentionInterval interval_;
};

inline std::int64_t count(const std::vector<Status>& statuses, Status least) {
  return std::count_if(statuses.begin(), statuses.end(), [&](Status s) { return s >= least; });
}
inline std::int64_t flagged(const std::vector<Status>& s) { return count(s, Status::improbable); }
inline std::int64_t failed(const std::vector<Status>& s) { return count(s, Status::fail); }

}  // namespace mlacheck::testing
