// Faults of top-k that depend on the shape of a row: its length, begin, k; and of launches.

#include <algorithm>
#include <csignal>
#include <thread>

#include "property_tests/museum/top_k_kernel.h"

namespace mlacheck::museum {

namespace {

using Selected = std::vector<std::int32_t>;

// Tiles of 16,384 columns; the second and later ones only bring what beats the first tile's best.
void lose_later_tiles(TopKRow& row) {
  const auto is_later = [&](std::int32_t index) { return index - row.begin >= 16384; };
  std::erase_if(row.ties, is_later);
  if (row.above.size() > 1) std::erase_if(row.above, is_later);
}
// Between k and 2k columns: the first k are taken.
void take_first_of_few(const TopKRow& row, Selected& selected) {
  if (row.size() <= row.k || row.size() > 2 * row.k) return;
  for (std::int64_t j = 0; j < row.k; ++j)
    selected[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(row.begin + j);
}
void pad_with_0(const TopKRow&, Selected& selected) { std::ranges::replace(selected, -1, 0); }
void keep_512(TopKRow& row) {
  while (std::ssize(row.above) > 512) row.above.pop_back();
  row.ties.resize(std::min(row.ties.size(), 512 - row.above.size()));
}
void count_from_begin(const TopKRow& row, Selected& selected) {
  for (std::int32_t& index : selected)
    if (index >= 0) index -= static_cast<std::int32_t>(row.begin);
}
void swap_with_neighbour(const TopKRow& row, Selected& selected) {
  // The second half of a pair is stored with the first one's offset.
  if (row.k >= 4 && row.k % 4 != 0) selected.back() = selected[selected.size() - 2];
}

void begin_at_0(const TopKCall&, std::int64_t, TopKRow& row) { row.begin = 0; }
void read_whole_vectors(const TopKCall& call, std::int64_t, TopKRow& row) {
  row.end = std::min(row.begin + (row.end - row.begin + 3) / 4 * 4, call.problem.columns);
}
void lose_last_column(const TopKCall&, std::int64_t, TopKRow& row) {
  row.end = std::max(row.begin, row.end - 1);
}
void take_first_rows_count(const TopKCall& call, std::int64_t, TopKRow& row) {
  if (call.tensors.range_begin == nullptr) return;
  const std::int64_t count = call.tensors.range_end[0] - call.tensors.range_begin[0];
  row.end = std::min(row.end, row.begin + count);
}
// The threshold of the row before, where the histogram is not cleared.
void keep_histogram(const TopKCall& call, std::int64_t i, TopKRow& row) {
  if (i > 0 && row.end - row.begin > row.k) row.scores -= call.problem.score_stride;
}

bool fail_on_short_row(const TopKCall& call) { return call.problem.columns >= call.problem.k; }
// A fallback that keeps a row in shared memory, on a GPU with 101,376 bytes.
bool fail_on_long_row(const TopKCall& call) { return call.problem.columns * 4 <= 101376; }
bool crash_on_odd_long_row(const TopKCall& call) {
  if (call.problem.columns > 32768 && call.problem.columns % 2 == 1 && call.problem.rows > 0)
    std::raise(SIGSEGV);
  return true;
}
// Several blocks a row, and a barrier that one of them resets too early.
bool hang_on_many_long_rows(const TopKCall& call) {
  while (call.problem.rows >= 4 && call.problem.columns > 4096)
    std::this_thread::sleep_for(std::chrono::seconds(1));
  return true;
}

void write_20_bytes_more(const TopKCall& call) {
  if (call.problem.rows > 0)
    std::fill_n(call.tensors.selected + call.problem.rows * call.problem.k, 5, 0);
}

}  // namespace

std::span<const TopKKernel> top_k_row_kernels() {
  static constexpr TopKKernel kKernels[] = {
      {.label = {"later_tiles_lost", "more than 16,384 columns: later tiles are all but lost",
                 "b12x #55 (1012199e): 16,448 fails, 16,384 passes"},
       .pick = lose_later_tiles},
      {.label = {"between_k_and_2k", "between k and 2k columns: the first k are taken",
                 "vllm #50576"},
       .finish = take_first_of_few},
      {.label = {"padded_with_0", "a short row is padded with 0, not -1", "tilelang top-k example"},
       .finish = pad_with_0},
      {.label = {"k_is_512", "k is 512 at most", "antirez/ds4 #478"}, .pick = keep_512},
      {.label = {"row_relative", "indices count from the row's begin, declared as absolute",
                 "vllm #56749"},
       .finish = count_from_begin},
      {.label = {"odd_k_repeats", "k no multiple of 4: the last member is the last but one",
                 "vllm #57578; flashinfer #2325"},
       .finish = swap_with_neighbour},
      {.label = {"row_begin_ignored", "a row begins at column 0", "vllm #56749"},
       .range = begin_at_0},
      {.label = {"reads_whole_vectors", "a row's length is rounded up to a multiple of 4",
                 "flashinfer #2592, #2308"},
       .range = read_whole_vectors},
      {.label = {"last_column_lost", "the last column of a row is lost", kNoReport},
       .range = lose_last_column},
      {.label = {"length_of_first_row", "no row is longer than the first one",
                 "flashinfer #2605 (k and length per row)"},
       .range = take_first_rows_count},
      {.label = {"histogram_kept", "a row's members are those of the row before",
                 "flashinfer #3529 (shared-memory race)"},
       .range = keep_histogram},
      {.label = {"fails_on_short_row", "an error when there are fewer columns than k",
                 "NVIDIA-NeMo/Automodel #3035"},
       .begin = fail_on_short_row},
      {.label = {"fails_on_long_row", "an error when a row does not fit into shared memory",
                 "vllm #54110, #45317; vllm-deepseek-v4-sm89 #113"},
       .begin = fail_on_long_row},
      {.label = {"crashes_on_odd_long_row", "crashes on an odd number of columns past 32,768",
                 "cudnn-frontend #311 (262,209); antirez/ds4 #847"},
       .begin = crash_on_odd_long_row},
      {.label = {"hangs_on_many_long_rows", "hangs: 4 rows or more of more than 4096 columns",
                 "flashinfer #3610, #3615; #3700, #4732"},
       .begin = hang_on_many_long_rows},
      {.label = {"writes_20_bytes_more", "stores 20 bytes past the selection", "sglang #37540"},
       .end = write_20_bytes_more},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
