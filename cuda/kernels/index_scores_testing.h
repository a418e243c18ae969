#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/emulator/session.h"
#include "cuda/kernels/index_scores_library.h"
#include "reference/formats/bf16.h"
#include "reference/formats/f16.h"
#include "reference/verdict/check_index_scores.h"

// Small problems for the index_scores kernel, run on the emulator and judged.
namespace mlacheck::kernels::testing {

inline constexpr float kScoreOutside = -std::numeric_limits<float>::infinity();
inline constexpr float kUnwritten = 12345;
inline constexpr std::int64_t kScoreSlack = 3;  // columns past the last of a row

inline Accumulation accumulation_of(const mlacheck_accumulation& declared) {
  constexpr SumOrder kOrders[] = {SumOrder::sequential, SumOrder::sequential, SumOrder::lanes16,
                                  SumOrder::tree};
  return {declared.block, kOrders[declared.order],
          declared.toward_zero != 0 ? Rounding::toward_zero : Rounding::to_nearest,
          declared.rounds_terms != 0, declared.alignment_bits};
}

inline std::string text_of(const std::vector<emulator::Report>& reports) {
  std::string text;
  for (const emulator::Report& report : reports) text += report.text() + "\n";
  return text;
}

struct ScoreOutcome {
  std::vector<float> scores;  // [tokens, keys]
  std::vector<emulator::Report> reports;
  std::vector<emulator::CallSite> call_sites;
  bool wrote_slack = false;
};

// Queries, keys and weights between -1 and 1; the same for the same seed. All members may be
// changed before a run.
struct IndexProblem {
  IndexProblem(std::int64_t rows, std::int64_t heads_of_a_row, std::int64_t columns,
               device::Element type, std::uint32_t seed = 1)
      : tokens(rows),
        heads(heads_of_a_row),
        key_count(columns),
        element(type),
        slots(columns),
        state(seed),
        page_size(std::max<std::int64_t>(columns, 1)) {
    q = draw(static_cast<std::size_t>(tokens * heads * kIndexDim));
    keys = draw(static_cast<std::size_t>(columns * kIndexDim));
    weights.resize(static_cast<std::size_t>(tokens * heads));
    for (float& weight : weights) weight = next();
  }

  float next() {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
  }
  std::uint16_t bits(float x) const {
    return element == device::Element::f16 ? to_f16(x).bits : to_bf16(x).bits;
  }
  std::vector<std::uint16_t> draw(std::size_t count) {
    std::vector<std::uint16_t> values(count);
    for (std::uint16_t& value : values) value = bits(next());
    return values;
  }

  // Pages in an order that is not theirs, of as many requests; a row of slack after every page.
  // What no row may read is NaN.
  void paginate(std::int64_t size, std::int64_t count) {
    page_size = size;
    requests = count;
    page_gap = 1;
    stride = std::max<std::int64_t>((key_count + size - 1) / size, 1);
    slots = stride * count * size;
    keys.assign(static_cast<std::size_t>(stride * count * (size + page_gap) * kIndexDim),
                bits(kNan));
    block_table.resize(static_cast<std::size_t>(stride * count));
    const auto pages = static_cast<std::int64_t>(block_table.size());
    std::int64_t step = 7;
    while (std::gcd(pages, step) != 1) ++step;
    for (std::int64_t i = 0; i < pages; ++i)
      block_table[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i * step + 3) % pages);
    for (std::int64_t t = 0; t < tokens; ++t) {
      request.push_back(static_cast<std::int32_t>(t % count));
      for (std::int64_t s = begin_of(t); s < end_of(t); ++s)
        for (std::int64_t d = 0; d < kIndexDim; ++d) key(t, s)[d] = bits(next());
    }
  }
  std::int64_t begin_of(std::int64_t t) const {
    return begin.empty() ? 0 : begin[static_cast<std::size_t>(t)];
  }
  std::int64_t end_of(std::int64_t t) const {
    return end.empty() ? key_count : end[static_cast<std::size_t>(t)];
  }
  // The 128 elements of key s of row t.
  std::uint16_t* key(std::int64_t t, std::int64_t s) {
    std::int64_t page = s / page_size;
    if (!block_table.empty())
      page = block_table[static_cast<std::size_t>(request[static_cast<std::size_t>(t)] * stride +
                                                  page)];
    return keys.data() + (page * (page_size + page_gap) + s % page_size) * kIndexDim;
  }

  mlacheck_index_scores_problem abi() const {
    mlacheck_index_scores_problem p = {};
    p.tokens = tokens;
    p.heads = heads;
    p.dim = kIndexDim;
    p.key_count = key_count;
    p.q_head_stride = kIndexDim + head_gap;
    p.q_token_stride = heads * p.q_head_stride;
    p.score_stride = key_count + kScoreSlack;
    p.block_table_stride = stride;
    const std::int32_t dtype = element == device::Element::f16 ? MLACHECK_F16 : MLACHECK_BF16;
    p.keys = {MLACHECK_CACHE_ROWS, dtype, slots, page_size, (page_size + page_gap) * kIndexRowBytes,
              kIndexRowBytes};
    p.q_dtype = dtype;
    p.has_block_table = block_table.empty() ? 0 : 1;
    p.has_request = request.empty() ? 0 : 1;
    p.has_key_range = begin.empty() ? 0 : 1;
    return p;
  }
  mlacheck_tensors tensors(float* scores) const {
    const auto address = [](const auto& values) {
      return values.empty() ? nullptr : values.data();
    };
    mlacheck_tensors t = {};
    t.q = q.data();
    t.cache = keys.data();
    t.weights = weights.data();
    t.block_table = address(block_table);
    t.request = address(request);
    t.range_begin = address(begin);
    t.range_end = address(end);
    t.scores_out = scores;
    return t;
  }
  IndexScoresPlan plan() const { return make_plan(abi(), 4); }

  // `change` sees the kernel's arguments before the launch.
  template <class Change>
  ScoreOutcome run(const IndexScoresPlan& plan, emulator::SessionOptions options,
                   Change change) const {
    ScoreOutcome outcome;
    const mlacheck_index_scores_problem p = abi();
    std::vector<float> written(static_cast<std::size_t>(tokens * p.score_stride), kUnwritten);
    emulator::Session session(std::move(options));
    device::Stream stream(&session);
    declare_tensors(stream, p, tensors(written.data()));
    IndexScoresArguments arguments = make_arguments(p, tensors(written.data()), plan);
    change(arguments);
    try {
      for (int i = 0; i < launches; ++i)
        if (element == device::Element::f16)
          launch_index_scores<device::Element::f16>(stream, plan, arguments);
        else
          launch_index_scores<device::Element::bf16>(stream, plan, arguments);
    } catch (const std::runtime_error&) {
      if (session.reports().empty()) throw;
    }
    for (std::int64_t i = 0; i < tokens * p.score_stride; ++i) {
      const float score = written[static_cast<std::size_t>(i)];
      if (i % p.score_stride < key_count)
        outcome.scores.push_back(score);
      else
        outcome.wrote_slack = outcome.wrote_slack || score != kUnwritten;
    }
    outcome.reports = session.reports();
    outcome.call_sites = session.call_sites();
    return outcome;
  }
  ScoreOutcome run(const IndexScoresPlan& plan, emulator::SessionOptions options = {}) const {
    return run(plan, std::move(options), [](IndexScoresArguments&) {});
  }

  // As the verdict takes them: the problem, and what the kernel declares.
  IndexScoresProblem problem() const {
    const DType dtype = element == device::Element::f16 ? DType::f16 : DType::bf16;
    const mlacheck_index_scores_problem p = abi();
    const mlacheck_tensors t = tensors(nullptr);
    IndexScoresProblem problem;
    problem.tokens = tokens;
    problem.heads = heads;
    problem.key_count = key_count;
    problem.q = {t.q, dtype, p.q_token_stride, p.q_head_stride};
    problem.weights = t.weights;
    problem.keys = {t.cache, dtype, slots, page_size, p.keys.page_stride, p.keys.row_stride, -1};
    problem.block_table = t.block_table;
    problem.requests = requests;
    problem.block_table_stride = stride;
    problem.block_size = page_size;
    problem.request = t.request;
    problem.key_begin = t.range_begin;
    problem.key_end = t.range_end;
    return problem;
  }
  static NumericsContract contract() {
    NumericsContract contract;
    contract.index_dot = accumulation_of(kIndexScoresContract.index_dot);
    contract.index_heads = accumulation_of(kIndexScoresContract.index_heads);
    return contract;
  }
  Finding judge(const std::vector<float>& scores) const {
    return check_index_scores(problem(), contract(), scores.data());
  }

  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::int64_t tokens, heads, key_count;
  device::Element element;
  std::int64_t slots;
  std::uint32_t state;
  std::int64_t page_size, page_gap = 0, stride = 0, requests = 1, head_gap = 0;
  std::vector<std::uint16_t> q, keys;
  std::vector<float> weights;
  std::vector<std::int32_t> block_table, request, begin, end;
  int launches = 1;  // one after another, on the same memory
};

// The plan with items of so many rows, and blocks of so many warps.
inline IndexScoresPlan cut(const IndexProblem& problem, std::uint32_t rows, std::uint32_t warps,
                           std::uint32_t blocks = 1) {
  IndexScoresPlan plan;
  const auto keys = static_cast<std::uint32_t>(problem.key_count);
  plan.item_rows = rows;
  plan.ahead = rows == 1;
  plan.warps = warps;
  plan.key_blocks = (keys + warps * kKeysOfWarp - 1) / (warps * kKeysOfWarp);
  plan.items = (static_cast<std::uint32_t>(problem.tokens) + rows - 1) / rows * plan.key_blocks;
  plan.blocks = blocks;
  return plan;
}

}  // namespace mlacheck::kernels::testing
