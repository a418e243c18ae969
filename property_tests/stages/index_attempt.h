#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fixtures/case.h"
#include "reference/verdict/numerics_contract.h"

namespace mlacheck::stages {

// A case of index scores and a kernel's answer, taken apart like an AttentionAttempt. Keys are by
// request and logical position.
struct IndexAttempt {
  IndexAttempt(const IndexScoresCase& from, const NumericsContract& declared,
               const std::vector<float>& answer);

  IndexScoresProblem problem();
  // Reads the keys as `view` says.
  void read_keys(const IndexScoresProblem& view);

  const IndexScoresCase& original;
  std::int64_t tokens, heads, dim, keys, requests;
  std::vector<float> q;                           // [T, H, dim]
  std::vector<float> weights;                     // [T, H]
  std::vector<float> key;                         // [requests, keys, dim]
  std::vector<float> scale;                       // [requests, keys]
  std::vector<std::int32_t> request, begin, end;  // [T]
  NumericsContract contract;
  std::vector<float> scores;  // [T, keys]

 private:
  std::vector<float> store_;  // keys, then scales: one page
  std::vector<std::int32_t> table_;
};

struct IndexVariant {
  std::string_view stage;
  std::string_view as_if;
  bool (*change)(IndexAttempt& attempt);
  bool loosens = false;
};

const std::vector<IndexVariant>& index_variants();

// Of top_k: what was selected, from which scores, by which rule.
struct TopKAttempt {
  TopKAttempt(const TopKCase& from, const NumericsContract& declared, bool relative,
              const std::vector<std::int32_t>& answer)
      : made(from.recipe), contract(declared), row_relative(relative), selected(answer) {
    made.inputs = from.inputs;
  }

  TopKCase made;
  NumericsContract contract;
  bool row_relative;
  std::vector<std::int32_t> selected;  // [T, k]
};

struct TopKVariant {
  std::string_view stage;
  std::string_view as_if;
  bool (*change)(TopKAttempt& attempt);
  bool loosens = false;
};

const std::vector<TopKVariant>& top_k_variants();

}  // namespace mlacheck::stages
