// Faults of top-k that depend on the scores: thresholds, ties, special values.

#include <algorithm>
#include <bit>
#include <cmath>

#include "property_tests/museum/schedule.h"
#include "property_tests/museum/top_k_kernel.h"
#include "reference/operators/views.h"

namespace mlacheck::museum {

namespace {

std::uint32_t by_f16(float score) { return order_of(round_to(DType::f16, score)); }
std::uint32_t by_top_byte(float score) { return order_of(score) >> 24; }

// More than `limit` ties fit into no buffer: the others are lost.
template <std::int64_t Limit>
void drop_ties(TopKRow& row) {
  if (std::ssize(row.ties) > Limit) row.ties.resize(static_cast<std::size_t>(Limit));
}

// The bin that the threshold falls into, by the first byte, has more than k members: the first that
// come are taken for its largest.
void keep_any_of_large_bin(TopKRow& row) {
  TopKRow coarse = row;
  split_row(coarse, by_top_byte);
  if (std::ssize(coarse.ties) > row.k) row = coarse;
}

// A stash of 4096 candidates of the threshold's bin, by the f16 of the scores; what comes later is
// lost.
void clip_stash(TopKRow& row) {
  TopKRow coarse = row;
  split_row(coarse, by_f16);
  if (std::ssize(coarse.ties) <= 4096) return;
  const std::int32_t last = coarse.ties[4095];
  const auto is_lost = [&](std::int32_t index) {
    return index > last && std::ranges::binary_search(coarse.ties, index);
  };
  std::erase_if(row.above, is_lost);
  std::erase_if(row.ties, is_lost);
}

void prefer_last_ties(TopKRow& row) { std::ranges::reverse(row.ties); }
void take_ties_as_they_come(TopKRow& row) {
  for (std::size_t i = row.ties.size(); i > 1; --i)
    std::swap(row.ties[i - 1], row.ties[schedule() % i]);
}
// A tie is counted twice: its slot is reserved before its place is known.
void double_first_tie(TopKRow& row) {
  if (row.room() > 1 && std::ssize(row.ties) > row.room()) row.ties[1] = row.ties[0];
}
void drop_minus_inf(TopKRow& row) {
  const auto is_minus_inf = [&](std::int32_t index) {
    return std::isinf(row.scores[index]) && row.scores[index] < 0;
  };
  std::erase_if(row.above, is_minus_inf);
  std::erase_if(row.ties, is_minus_inf);
}
void drop_nan(TopKRow& row) {
  std::erase_if(row.ties, [&](std::int32_t index) { return std::isnan(row.scores[index]); });
}

std::uint32_t nan_above_all(float score) { return std::isnan(score) ? ~0u : order_of(score); }
std::uint32_t zeros_apart(float score) {
  return score == 0 && std::signbit(score) ? order_of(0) - 1 : order_of(score);
}
std::uint32_t by_magnitude(float score) {
  return std::isnan(score) ? 0 : (std::bit_cast<std::uint32_t>(score) & 0x7fffffffu) + 1;
}
std::uint32_t subnormals_as_zero(float score) {
  return std::fpclassify(score) == FP_SUBNORMAL ? order_of(0) : order_of(score);
}

void in_order_of_scores(const TopKRow& row, std::vector<std::int32_t>& selected) {
  const auto end = std::ranges::find(selected, -1);
  std::stable_sort(selected.begin(), end, [&](std::int32_t a, std::int32_t b) {
    return order_of(row.scores[a]) > order_of(row.scores[b]);
  });
}

// Slots that no winner or tie filled hold what the buffer held.
void leave_stale_slots(TopKRow& row) {
  if (std::ssize(row.ties) > 2048) row.ties.clear();
}

}  // namespace

std::span<const TopKKernel> top_k_value_kernels() {
  static constexpr TopKKernel kKernels[] = {
      {.label = {"honest_top_k", "nothing is", ""}},
      {.label = {"tie_overflow_1024", "more than 1024 ties at the threshold: holes of -1",
                 "sglang #30512, #30645"},
       .pick = drop_ties<1024>},
      {.label = {"tie_overflow_2048", "more than 2048 ties at the threshold: all are lost",
                 "sglang #35257, #36807"},
       .pick = leave_stale_slots},
      {.label = {"threshold_bin_arbitrary", "a threshold bin of more than k: any of its members",
                 "sglang #35257, #37941"},
       .pick = keep_any_of_large_bin},
      {.label = {"stash_of_4096",
                 "more than 4096 candidates that are alike in f16: the later are lost",
                 "sglang #36807, #37893; b12x #55"},
       .pick = clip_stash},
      {.label = {"chosen_by_f16", "members are chosen by their f16",
                 "vllm #51782, #52149, #55122; flashinfer #4451"},
       .order = by_f16},
      {.label = {"ties_to_last", "ties fall to the highest index, declared as the lowest",
                 "ROCm/aiter #4376"},
       .pick = prefer_last_ties},
      {.label = {"ties_by_schedule", "ties fall as the schedule has it, declared as deterministic",
                 "flashinfer #2584; sglang #31115; omlx #2243"},
       .any_tie = 1,
       .pick = take_ties_as_they_come},
      {.label = {"tie_taken_twice", "one tie stands twice, another is lost", "flashinfer #3529"},
       .pick = double_first_tie},
      {.label = {"minus_inf_left_out", "scores of -inf are not selected: holes of -1",
                 "tilelang #1252"},
       .pick = drop_minus_inf},
      {.label = {"nan_left_out", "NaN is not selected where nothing else is left", kNoReport},
       .pick = drop_nan},
      {.label = {"nan_first", "NaN is above all, declared as below", "torch.topk"},
       .order = nan_above_all},
      {.label = {"minus_0_below_0", "-0 is below +0, not equal", "sglang #30512 (zeros of ReLU)"},
       .order = zeros_apart},
      {.label = {"sign_ignored", "scores are compared by magnitude: bits without their sign",
                 kNoReport},
       .order = by_magnitude},
      {.label = {"subnormals_are_0", "subnormal scores equal 0", kNoReport},
       .order = subnormals_as_zero},
      {.label = {"unsorted", "in order of scores, declared as ascending", "vllm #56254"},
       .finish = in_order_of_scores},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
