#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "property_tests/museum/label.h"
#include "property_tests/museum/top_k_kernel.h"

namespace mlacheck::museum {

struct IndexCall {
  const mlacheck_index_scores_problem& problem;
  const mlacheck_tensors& tensors;
  bool unmasked = false;  // nothing is to be written outside a row's range
};

struct KeyRange {
  std::int64_t begin;
  std::int64_t end;
};

// A plain kernel of index scores, and of the selection after them: fp32, in 16 lanes. A hook that
// is null leaves its step as it is.
struct IndexKernel {
  Label label;

  void (*range)(const IndexCall&, std::int64_t t, KeyRange&) = nullptr;
  // In place of slot_of and read_key; the key without its scale.
  std::int64_t (*slot)(const IndexCall&, std::int64_t t, std::int64_t s) = nullptr;
  void (*read)(const IndexCall&, std::int64_t slot, float* key, float& scale) = nullptr;
  void (*query)(const IndexCall&, float* q) = nullptr;
  float (*dot)(const float* a, const float* b, std::int64_t n) = nullptr;
  float (*weight)(const IndexCall&, std::int64_t t, std::int64_t h) = nullptr;
  float (*term)(float weight, float dot) = nullptr;  // of the sum over the heads
  // Scores of a row: [key_count], -inf outside its range; false: it is not stored.
  bool (*finish)(const IndexCall&, std::int64_t t, std::vector<float>& scores) = nullptr;
  bool always_masks = false;  // whatever is asked
  // Of index_select alone.
  TopKKernel select = {};
};

// What an honest kernel does.
std::int64_t slot_of(const IndexCall& call, std::int64_t t, std::int64_t s);
void read_key(const IndexCall& call, std::int64_t slot, float* key, float& scale);
KeyRange range_of(const IndexCall& call, std::int64_t t);

void run(const IndexKernel& kernel, const IndexCall& call);
void run_select(const IndexKernel& kernel, const mlacheck_index_select_problem& problem,
                const mlacheck_tensors& tensors);
mlacheck_contract index_contract();

std::span<const IndexKernel> index_scores_kernels();  // the honest one first
std::span<const IndexKernel> index_select_kernels();

}  // namespace mlacheck::museum
