#pragma once

// Test helper: faults of sparse attention kernels, and where the derived bound must see them.

#include <algorithm>
#include <functional>
#include <vector>

#include "reference/verdict/judge.h"

namespace mlacheck::testing {

enum class Seen {
  proven,  // every row FAIL
  likely,  // every row at least IMPROBABLE
};

struct Fault {
  const char* name;
  Regime regime;
  Seen out;
  Kernel kernel;
  // What the kernel gathers instead of the present rows; empty: those.
  std::function<void(std::vector<float>& rows, std::int64_t qk_dim)> misread = {};
  double share = 1;  // of the rows, by out alone
};

inline std::vector<Fault> faults_of_out() {
  const Kernel clean = tensor_core_kernel();
  const auto with = [&](auto change) {
    Kernel kernel = clean;
    change(kernel);
    return kernel;
  };
  const Kernel drop = with([](Kernel& k) { k.dropped_key = 1000; });
  const Kernel stale = with([](Kernel& k) { k.stale_value = 1000; });
  const Kernel no_rope = with([](Kernel& k) { k.qk_dim = 512; });
  const Kernel scale = with([](Kernel& k) { k.scale_factor = 1.01f; });
  const Kernel narrow = with([](Kernel& k) {
    k.splits = 8;
    k.partial_dtype = DType::bf16;
  });
  const Kernel e4m3 = with([](Kernel& k) { k.weight_dtype = DType::e4m3; });
  const Kernel truncated = with([](Kernel& k) { k.truncates_weights = true; });
  // An absent entry is read as slot 0: one key more.
  const auto key_zero = [](std::vector<float>& rows, std::int64_t dim) {
    const std::vector<float> first(rows.begin(), rows.begin() + dim);
    rows.insert(rows.end(), first.begin(), first.end());
  };
  // One value scale of 128 dims, 1.4, is forced to a power of two.
  const auto e8m0 = [](std::vector<float>& rows, std::int64_t dim) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (static_cast<std::int64_t>(i) % dim < 128) rows[i] /= 1.4f;
  };
  using enum Regime;
  return {
      {"one key dropped", flat, Seen::likely, drop},
      {"one key dropped", sink_key, Seen::likely, drop},
      {"-1 read as key 0", flat, Seen::likely, clean, key_zero},
      {"-1 read as key 0", sink_key, Seen::proven, clean, key_zero},
      {"one value row stale", flat, Seen::likely, stale},
      {"one value row stale", sink_key, Seen::likely, stale},
      {"RoPE dims dropped", flat, Seen::likely, no_rope},
      {"RoPE dims dropped", biased, Seen::likely, no_rope, {}, 0.9},  // the output's rounding hides
                                                                      // some
      {"scale as e8m0", flat, Seen::proven, clean, e8m0},
      {"scale as e8m0", sink_key, Seen::proven, clean, e8m0},
      {"softmax scale off by 1 %", peaky, Seen::proven, scale},
      {"softmax scale off by 1 %", sink_key, Seen::likely, scale},
      {"bf16 split partials, undeclared", biased, Seen::likely, narrow},
      {"weights in e4m3", flat, Seen::likely, e4m3},
      {"weights truncated", biased, Seen::likely, truncated},
  };
}

// Expects each fault of out to be seen in every row of the regime, and a clean kernel in none.
template <typename Expect>
void expect_faults_seen(const TestShape& shape, std::uint64_t seed, Expect expect) {
  for (const Regime regime : {Regime::flat, Regime::peaky, Regime::biased, Regime::sink_key}) {
    TestProblem test = make_problem(regime, shape, seed);
    const std::vector<float> rows = test.gathered(0);
    const Judge judge(std::move(test), tensor_core_contract());
    for (const Fault& fault : faults_of_out()) {
      if (fault.regime != regime) continue;
      std::vector<float> misread = rows;
      if (fault.misread) fault.misread(misread, shape.qk_dim);
      const Judge::Statuses statuses = judge.run(fault.kernel, &misread);
      expect(fault, fault.out == Seen::proven ? failed(statuses.out) : flagged(statuses.out));
    }
  }
}

}  // namespace mlacheck::testing
