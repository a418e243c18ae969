#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/emulator/session.h"
#include "cuda/kernels/top_k_guess.h"
#include "cuda/kernels/top_k_launch.h"
#include "reference/operators/top_k.h"

// Small problems for the top_k kernels, run on the emulator.
namespace mlacheck::kernels::testing {

// Distributions of scores that selections are known to fail on.
enum class Scores {
  normal,
  zeros,
  few_above_zeros,  // 100 winners, the rest 0
  two_values,
  narrow,        // neighbours in fp32: one value in fp16
  past_fp16,     // beyond +-65504
  specials,      // Inf, NaN, subnormals, both zeros, the extremes
  minus_inf,     // but for some
  nan,           // but for some
  signed_zeros,  // -0 and +0 in turn
  ascending,
  descending,
  periodic,   // every 64th is high
  clustered,  // the high ones in one run
  smooth,     // like their neighbours
};
inline constexpr Scores kAllScores[] = {
    Scores::normal,   Scores::zeros,        Scores::few_above_zeros, Scores::two_values,
    Scores::narrow,   Scores::past_fp16,    Scores::specials,        Scores::minus_inf,
    Scores::nan,      Scores::signed_zeros, Scores::ascending,       Scores::descending,
    Scores::periodic, Scores::clustered,    Scores::smooth};

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  std::uint32_t below(std::uint32_t n) { return next() % n; }
  // About normal.
  float normal() {
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += static_cast<float>(next()) * 0x1p-32f - 0.5f;
    return sum * 1.2f;
  }

 private:
  std::uint64_t state_;
};

inline std::vector<float> scores_of(Scores scores, std::size_t count, std::uint64_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float specials[] = {kInfinity,        -kInfinity, kNan, -kNan, 0x1p-149f,
                            -0x1p-149f,       0x1p-130f,  0.0f, -0.0f, 0x1.fffffep127f,
                            -0x1.fffffep127f, 1.0f};
  Draws draws(seed);
  std::vector<float> values(count);
  float last = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<float>(i);
    float& value = values[i];
    switch (scores) {
      case Scores::normal:
        value = draws.normal();
        break;
      case Scores::zeros:
        value = 0;
        break;
      case Scores::few_above_zeros:
        value = draws.below(static_cast<std::uint32_t>(count)) < 100 ? 1 + draws.normal() : 0;
        break;
      case Scores::two_values:
        value = draws.below(3) == 0 ? 2.0f : 1.0f;
        break;
      case Scores::narrow:
        value = std::bit_cast<float>(0x3f800000u + draws.below(1000));
        break;
      case Scores::past_fp16:
        value = draws.normal() * 1e6f;
        break;
      case Scores::specials:
        value = specials[draws.below(12)];
        break;
      case Scores::minus_inf:
        value = draws.below(20) == 0 ? draws.normal() : -kInfinity;
        break;
      case Scores::nan:
        value = draws.below(20) == 0 ? draws.normal() : kNan;
        break;
      case Scores::signed_zeros:
        value = i % 2 == 0 ? -0.0f : 0.0f;
        break;
      case Scores::ascending:
        value = at;
        break;
      case Scores::descending:
        value = -at;
        break;
      case Scores::periodic:
        value = draws.normal() + (i % 64 == 0 ? 8.0f : 0.0f);
        break;
      case Scores::smooth:
        value = last = 0.9f * last + draws.normal();
        break;
      case Scores::clustered:
        value = draws.normal() + (i > count / 3 && i < count / 3 + 3000 ? 8.0f : 0.0f);
        break;
    }
  }
  return values;
}

// High scores where guess_threshold samples 32 bytes of each 2^step of a row of that alignment, or
// where it does not.
inline std::vector<float> scores_that_mislead(std::size_t count, int step, bool sampled) {
  std::vector<float> values = scores_of(Scores::normal, count, 9);
  for (std::size_t i = 8; i < count; ++i) {
    const auto pair = static_cast<std::uint32_t>(i / 8) - 1;
    const std::uint32_t within = (pair >> step) * 0x9e3779b9u >> (32 - step);
    if ((pair % (1u << step) == within) == sampled) values[i] += sampled ? 20.0f : 10.0f;
  }
  return values;
}

inline constexpr std::uint32_t kStreams = 0;

struct Selection {
  std::vector<std::int32_t> selected;
  std::vector<emulator::Report> reports;
  std::vector<emulator::CallSite> call_sites;
};

// Rows of `columns` scores, all of each row. The members may be changed before a run.
class Selecting {
 public:
  Selecting(std::int64_t rows, std::int64_t columns, std::int64_t k) {
    problem.rows = rows;
    problem.columns = problem.score_stride = columns;
    problem.k = k;
    problem.has_row_range = 1;
    begin.assign(static_cast<std::size_t>(rows), 0);
    end.assign(static_cast<std::size_t>(rows), static_cast<std::int32_t>(columns));
    scores.resize(static_cast<std::size_t>(rows * columns));
  }

  void fill_row(std::int64_t row, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), scores.begin() + row * problem.score_stride);
  }

  // With so many blocks a row; 1: top_k_rows, kStreams: top_k_long_rows.
  template <class Rules = TopKRules>
  Selection run(std::uint32_t slices, emulator::SessionOptions options = {}) const {
    TopKPlan plan;
    plan.rows = static_cast<std::uint32_t>(problem.rows);
    plan.slices = slices == kStreams ? 1 : slices;
    plan.streams_rows = slices == kStreams;
    Selection selection;
    selection.selected.assign(static_cast<std::size_t>(problem.rows * problem.k), -2);
    std::vector<std::uint64_t> workspace(workspace_bytes(plan) / 8 + 1);
    mlacheck_tensors tensors = {};
    tensors.scores_in = scores.data();
    tensors.range_begin = begin.data();
    tensors.range_end = end.data();
    tensors.selected = selection.selected.data();

    emulator::Session session(std::move(options));
    using emulator::Access;
    const auto declare = [&](const char* name, const auto& values, Access access) {
      session.declare_memory(name, values.data(), values.size() * sizeof(values[0]), access);
    };
    declare("scores", scores, Access::read);
    declare("row_begin", begin, Access::read);
    declare("row_end", end, Access::read);
    declare("selected", selection.selected, Access::write);
    declare("workspace", workspace, Access::write);
    device::Stream stream(&session);
    try {
      for (int call = 0; call < calls; ++call)
        launch_top_k<Rules>(stream, plan, make_arguments(problem, tensors, plan, workspace.data()));
    } catch (const std::runtime_error&) {
      if (session.reports().empty()) throw;
    }
    selection.reports = session.reports();
    selection.call_sites = session.call_sites();
    return selection;
  }

  std::vector<std::int32_t> expected() const {
    std::vector<std::int32_t> indices(static_cast<std::size_t>(problem.rows * problem.k));
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      top_k(scores.data() + row * problem.score_stride, begin[r], end[r], problem.k,
            indices.data() + row * problem.k);
    }
    return indices;
  }

  mlacheck_top_k_problem problem = {};
  int calls = 1;  // one after the other, on the same memory
  std::vector<std::int32_t> begin, end;
  std::vector<float> scores;
};

// Fills a row with scores of which those that stand for it in a stream differ from the others.
inline void mislead_stream(Selecting& selecting, std::uint32_t row, float difference) {
  const auto columns = static_cast<std::size_t>(selecting.problem.columns);
  std::vector<float> values = scores_of(Scores::normal, columns, 9);
  TopKArguments arguments = {};
  arguments.scores = selecting.scores.data();
  arguments.score_stride = selecting.problem.score_stride;
  arguments.columns = static_cast<std::int32_t>(columns);
  const TopKRow of(arguments, row);
  for (unsigned thread = 0; thread < TopK::kThreads; ++thread)
    for (std::uint32_t i = 0; i < 4; ++i)
      values[of.place(StreamSample<TopKRules>::number(of, thread, row)) + i] += difference;
  selecting.fill_row(row, values);
}

inline std::string text_of(const std::vector<emulator::Report>& reports) {
  std::string text;
  for (const emulator::Report& report : reports) text += report.text() + "\n";
  return text;
}

}  // namespace mlacheck::kernels::testing
