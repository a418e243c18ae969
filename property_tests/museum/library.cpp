// The museum as a kernel library: every exhibit is a kernel of its own.

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "property_tests/museum/attention_kernel.h"
#include "property_tests/museum/index_kernel.h"
#include "property_tests/museum/map_slots_kernel.h"
#include "property_tests/museum/top_k_kernel.h"

namespace mlacheck::museum {

namespace {

constexpr std::size_t kMost = 160;

struct Exhibit {
  mlacheck_kernel kernel;
  std::function<int(const mlacheck_problem&, const mlacheck_tensors&, std::byte*)> run;
};

// The kernels, in the order of their operators; made once.
class Museum {
 public:
  static const Museum& instance() {
    static const Museum museum;
    return museum;
  }
  const Exhibit& exhibit(std::size_t i) const { return exhibits_[i]; }
  const mlacheck_library& library() const { return library_; }

 private:
  Museum();

  template <class Kernel>
  void add(std::int32_t op, const Kernel& kernel, const mlacheck_conventions& conventions,
           const mlacheck_contract& contract,
           std::function<int(const mlacheck_problem&, const mlacheck_tensors&, std::byte*)> run);

  std::deque<std::string> descriptions_;
  std::deque<Exhibit> exhibits_;
  std::vector<const mlacheck_kernel*> kernels_;
  mlacheck_library library_ = {};
};

int supports(const mlacheck_problem*, char*, std::size_t) { return 1; }

int workspace_size(const mlacheck_problem* problem, std::uint64_t* bytes) {
  *bytes = problem->op == MLACHECK_SPARSE_ATTENTION ? kWorkspaceBytes : 0;
  return 0;
}

// The C functions have no context: one for each place in the list.
template <std::size_t I>
int run_exhibit(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void* workspace,
                std::uint64_t, void*, char* why, std::size_t why_size) {
  try {
    return Museum::instance().exhibit(I).run(*problem, *tensors,
                                             static_cast<std::byte*>(workspace));
  } catch (const std::exception& error) {
    std::strncpy(why, error.what(), why_size - 1);
    return 1;
  }
}

template <std::size_t... I>
constexpr std::array<decltype(mlacheck_kernel::run), sizeof...(I)> run_functions(
    std::index_sequence<I...>) {
  return {run_exhibit<I>...};
}
constexpr auto kRun = run_functions(std::make_index_sequence<kMost>());

template <class Kernel>
void Museum::add(
    std::int32_t op, const Kernel& kernel, const mlacheck_conventions& conventions,
    const mlacheck_contract& contract,
    std::function<int(const mlacheck_problem&, const mlacheck_tensors&, std::byte*)> run) {
  const Label& label = kernel.label;
  std::string& description = descriptions_.emplace_back(label.what);
  if (*label.origin != '\0') description += std::string(" [") + label.origin + "]";
  mlacheck_kernel c = {};
  c.struct_size = sizeof(c);
  c.op = op;
  c.name = label.name;
  c.description = description.c_str();
  c.memory = MLACHECK_HOST;
  c.conventions = conventions;
  c.contract = contract;
  c.supports = supports;
  c.workspace_size = workspace_size;
  c.run = kRun.at(exhibits_.size());
  kernels_.push_back(&exhibits_.emplace_back(Exhibit{c, std::move(run)}).kernel);
}

mlacheck_conventions selection_conventions(const TopKKernel& kernel) {
  mlacheck_conventions conventions = {};
  conventions.struct_size = sizeof(conventions);
  conventions.any_tie = kernel.any_tie;
  conventions.any_order = kernel.any_order;
  return conventions;
}

Museum::Museum() {
  const auto add_attention = [&](std::span<const AttentionKernel> kernels) {
    for (const AttentionKernel& kernel : kernels)
      add(MLACHECK_SPARSE_ATTENTION, kernel, conventions_of(kernel), contract_of(kernel),
          [&kernel](const mlacheck_problem& p, const mlacheck_tensors& t, std::byte* workspace) {
            museum::run(kernel, {p.u.sparse_attention, t, workspace});
            return 0;
          });
  };
  add_attention(honest_attention());
  add_attention(attention_entry_faults());
  add_attention(attention_math_faults());
  add_attention(attention_layout_faults());
  add_attention(attention_call_faults());

  for (const IndexKernel& kernel : index_scores_kernels())
    add(MLACHECK_INDEX_SCORES, kernel, selection_conventions({}), index_contract(),
        [&kernel](const mlacheck_problem& p, const mlacheck_tensors& t, std::byte*) {
          const bool unmasked = MLACHECK_PROBLEM_HAS(&p, unmasked_scores) && p.unmasked_scores != 0;
          museum::run(kernel, {p.u.index_scores, t, unmasked});
          return 0;
        });
  for (const IndexKernel& kernel : index_select_kernels())
    add(MLACHECK_INDEX_SELECT, kernel, selection_conventions(kernel.select), index_contract(),
        [&kernel](const mlacheck_problem& p, const mlacheck_tensors& t, std::byte*) {
          run_select(kernel, p.u.index_select, t);
          return 0;
        });

  const auto add_top_k = [&](std::span<const TopKKernel> kernels) {
    for (const TopKKernel& kernel : kernels)
      add(MLACHECK_TOP_K, kernel, selection_conventions(kernel), index_contract(),
          [&kernel](const mlacheck_problem& p, const mlacheck_tensors& t, std::byte*) {
            return museum::run(kernel, {p.u.top_k, t});
          });
  };
  add_top_k(top_k_value_kernels());
  add_top_k(top_k_row_kernels());

  for (const MapSlotsKernel& kernel : map_slots_kernels())
    add(MLACHECK_MAP_SLOTS, kernel, selection_conventions({}), index_contract(),
        [&kernel](const mlacheck_problem& p, const mlacheck_tensors& t, std::byte*) {
          museum::run(kernel, {p.u.map_slots, t});
          return 0;
        });

  library_ = {.struct_size = sizeof(mlacheck_library),
              .abi_version = MLACHECK_ABI_VERSION,
              .name = "mlacheck museum",
              .version = MLACHECK_VERSION,
              .kernels = kernels_.data(),
              .kernel_count = static_cast<std::uint32_t>(kernels_.size()),
              .reserved = 0};
}

}  // namespace

}  // namespace mlacheck::museum

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(
    std::uint32_t abi_version) {
  return abi_version == MLACHECK_ABI_VERSION ? &mlacheck::museum::Museum::instance().library()
                                             : nullptr;
}
