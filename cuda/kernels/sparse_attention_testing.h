#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/emulator/session.h"
#include "cuda/kernels/sparse_attention_launch.h"

// Small problems for the sparse_attention kernels, run on the emulator.
namespace mlacheck::kernels::testing {

// Values in steps of 1/8 from -1 to 1, as f16; the same for the same seed.
inline std::vector<std::uint16_t> f16_values(std::size_t count, std::uint32_t seed) {
  static constexpr std::uint16_t kEighths[9] = {0x0000, 0x3000, 0x3400, 0x3600, 0x3800,
                                                0x3900, 0x3a00, 0x3b00, 0x3c00};
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    const std::uint32_t draw = seed >> 16;
    value = static_cast<std::uint16_t>(kEighths[draw % 9] | (draw & 0x8000u));
  }
  return values;
}

struct Outcome {
  std::vector<std::uint16_t> out;
  std::vector<float> lse, max_logit;
  std::vector<emulator::Report> reports;
  std::vector<emulator::CallSite> call_sites;

  bool same_bits(const Outcome& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
    };
    return same(out, other.out) && same(lse, other.lse) && same(max_logit, other.max_logit);
  }
};

// Rows of f16, flat. The members may be changed before a run.
class Attention {
 public:
  Attention(std::int64_t tokens, std::int64_t heads, std::int64_t topk, std::int64_t slots)
      : q(f16_values(static_cast<std::size_t>(tokens * heads * kQkDim), 1)),
        kv(f16_values(static_cast<std::size_t>(slots * kQkDim), 2)),
        indices(static_cast<std::size_t>(tokens * topk)) {
    for (std::size_t i = 0; i < indices.size(); ++i)
      indices[i] = static_cast<std::int32_t>(i * 7 % static_cast<std::size_t>(slots));
    problem.tokens = tokens;
    problem.heads = heads;
    problem.topk = topk;
    problem.qk_dim = kQkDim;
    problem.v_dim = kVDim;
    problem.q_token_stride = heads * kQkDim;
    problem.q_head_stride = kQkDim;
    problem.index_stride = topk;
    problem.kv = {MLACHECK_CACHE_ROWS, MLACHECK_F16, slots, slots, slots * kRowBytes, kRowBytes};
    problem.q_dtype = problem.out_dtype = MLACHECK_F16;
    problem.sm_scale = 0.0625f;
    problem.wants_max_logit = 1;
  }

  SparseAttentionPlan plan() const { return make_plan(problem, 4); }

  // `change` sees the kernel's arguments before the launch.
  template <class Change>
  Outcome run(const SparseAttentionPlan& plan, emulator::SessionOptions options,
              Change change) const {
    Outcome outcome;
    const auto rows = static_cast<std::size_t>(problem.tokens * problem.heads);
    outcome.out.assign(rows * kVDim, 0xffff);
    outcome.lse.assign(rows, std::numeric_limits<float>::quiet_NaN());
    outcome.max_logit = outcome.lse;
    std::vector<float> workspace(workspace_bytes(plan) / sizeof(float) + 64);
    void* aligned = workspace.data();
    std::size_t room = workspace.size() * sizeof(float);
    aligned = std::align(256, workspace_bytes(plan), aligned, room);
    mlacheck_tensors tensors = {};
    tensors.q = q.data();
    tensors.cache = kv.data();
    tensors.indices = indices.data();
    tensors.topk_length = topk_length.empty() ? nullptr : topk_length.data();
    tensors.attn_sink = attn_sink.empty() ? nullptr : attn_sink.data();
    tensors.out = outcome.out.data();
    tensors.lse = outcome.lse.data();
    tensors.max_logit = outcome.max_logit.data();

    emulator::Session session(std::move(options));
    using emulator::Access;
    const auto declare = [&](const char* name, const auto& values, Access access) {
      session.declare_memory(name, values.data(), values.size() * sizeof(values[0]), access);
    };
    declare("q", q, Access::read);
    declare("kv", kv, Access::read);
    declare("indices", indices, Access::read);
    declare("topk_length", topk_length, Access::read);
    declare("attn_sink", attn_sink, Access::read);
    declare("out", outcome.out, Access::write);
    declare("lse", outcome.lse, Access::write);
    declare("max_logit", outcome.max_logit, Access::write);
    session.declare_memory("workspace", aligned, workspace_bytes(plan), Access::write);

    SparseAttentionArguments arguments = make_arguments(problem, tensors, plan, aligned);
    change(arguments);
    device::Stream stream(&session);
    try {
      for (int i = 0; i < launches; ++i)
        if (plan.group_heads == 16)
          launch_sparse_attention<device::Element::f16, 16>(stream, plan, arguments);
        else
          launch_sparse_attention<device::Element::f16, 64>(stream, plan, arguments);
    } catch (const std::runtime_error&) {
      if (session.reports().empty()) throw;
    }
    outcome.reports = session.reports();
    outcome.call_sites = session.call_sites();
    return outcome;
  }
  Outcome run(const SparseAttentionPlan& plan, emulator::SessionOptions options = {}) const {
    return run(plan, std::move(options), [](SparseAttentionArguments&) {});
  }

  mlacheck_sparse_attention_problem problem = {};
  std::vector<std::uint16_t> q, kv;
  std::vector<std::int32_t> indices, topk_length;
  std::vector<float> attn_sink;
  int launches = 1;  // one after another, on the same memory
};

// The plan with chunks of `chunk` entries, each an item of its own or not, in blocks of
// `group_heads`.
inline SparseAttentionPlan with_chunks(const Attention& attention, int group_heads,
                                       std::int32_t chunk, bool split) {
  SparseAttentionPlan plan;
  const std::int64_t chunks = (attention.problem.topk + chunk - 1) / chunk;
  plan.group_heads = group_heads;
  plan.chunk = chunk;
  plan.split = split && chunks > 1;
  plan.folds = !split && chunks > 1;
  plan.chunks = static_cast<std::uint32_t>(plan.split ? chunks : 1);
  plan.head_groups =
      static_cast<std::uint32_t>((attention.problem.heads + group_heads - 1) / group_heads);
  plan.items =
      static_cast<std::uint32_t>(attention.problem.tokens) * plan.head_groups * plan.chunks;
  plan.blocks = plan.items;
  plan.combine_blocks = 2;
  return plan;
}

}  // namespace mlacheck::kernels::testing
