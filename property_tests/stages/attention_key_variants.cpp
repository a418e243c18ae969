#include <algorithm>
#include <limits>
#include <set>
#include <span>

#include "property_tests/stages/attention_attempt.h"
#include "property_tests/stages/leave_out.h"

namespace mlacheck::stages {
// Named too: batches of files compile as one, and variants of operators are alike.
namespace of_keys {
namespace {

using Attempt = AttentionAttempt;

// ---- scores ----

bool leave_out(Attempt& a, std::int64_t first, std::int64_t last) {
  return stages::leave_out(a.q, a.qk_dim, first, last);
}

bool no_rope(Attempt& a) { return leave_out(a, a.v_dim, a.qk_dim); }
bool no_latent(Attempt& a) { return a.v_dim < a.qk_dim && leave_out(a, 0, a.v_dim); }
bool no_first_element(Attempt& a) { return leave_out(a, 0, 1); }
bool no_last_element(Attempt& a) { return leave_out(a, a.qk_dim - 1, a.qk_dim); }
bool no_last_block(Attempt& a) { return leave_out(a, a.qk_dim - 16, a.qk_dim); }
bool no_odd_elements(Attempt& a) {
  for (std::int64_t i = 1; i < a.qk_dim; i += 2) leave_out(a, i, i + 1);
  return a.qk_dim > 1;
}

// The rotated pairs of q interleaved where those of the cache are in halves.
bool interleaved_rope(Attempt& a) {
  const std::int64_t rope = a.qk_dim - a.v_dim, half = rope / 2;
  if (rope < 4 || rope % 2 != 0) return false;
  for (std::int64_t i = 0; i < a.tokens * a.heads; ++i) {
    float* part = a.q.data() + i * a.qk_dim + a.v_dim;
    const std::vector<float> before(part, part + rope);
    for (std::int64_t j = 0; j < half; ++j) {
      part[2 * j] = before[static_cast<std::size_t>(j)];
      part[2 * j + 1] = before[static_cast<std::size_t>(j + half)];
    }
  }
  return true;
}

bool halved_rope(Attempt& a) {
  const std::int64_t rope = a.qk_dim - a.v_dim, half = rope / 2;
  if (rope < 4 || rope % 2 != 0) return false;
  for (std::int64_t i = 0; i < a.tokens * a.heads; ++i) {
    float* part = a.q.data() + i * a.qk_dim + a.v_dim;
    const std::vector<float> before(part, part + rope);
    for (std::int64_t j = 0; j < half; ++j) {
      part[j] = before[static_cast<std::size_t>(2 * j)];
      part[j + half] = before[static_cast<std::size_t>(2 * j + 1)];
    }
  }
  return true;
}

// ---- selection: which entries count ----

bool ignore_length(Attempt& a) {
  if (a.lengths.empty()) return false;
  a.lengths.clear();
  return true;
}

bool lengthen(Attempt& a, std::int32_t more) {
  if (a.lengths.empty()) return false;
  for (std::int32_t& length : a.lengths)
    length = std::clamp(length + more, 0, static_cast<std::int32_t>(a.topk));
  return true;
}
bool longer_by_one(Attempt& a) { return lengthen(a, 1); }
bool shorter_by_one(Attempt& a) { return lengthen(a, -1); }

// Absent entries inside the length become the slot.
bool read_absent_as(Attempt& a, std::int32_t slot) {
  bool changed = false;
  for (std::int64_t t = 0; t < a.tokens; ++t)
    for (std::int64_t j = 0; j < a.length(t); ++j)
      if (!a.is_present(t, j)) {
        a.entry(t, j) = slot;
        changed = a.slots > 0;
      }
  return changed;
}
bool absent_as_first(Attempt& a) { return read_absent_as(a, 0); }
bool absent_as_last(Attempt& a) {
  return read_absent_as(a, static_cast<std::int32_t>(a.slots - 1));
}

bool duplicates_once(Attempt& a) {
  bool changed = false;
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    std::set<std::int32_t> seen;
    for (std::int64_t j = 0; j < a.topk; ++j)
      if (a.is_present(t, j) && !seen.insert(a.entry(t, j)).second) {
        a.entry(t, j) = -1;
        changed = true;
      }
  }
  return changed;
}

// The first or last `count` places of every row's length are left out.
bool drop(Attempt& a, std::int64_t count, bool first) {
  if (a.topk < count) return false;
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const std::int64_t length = a.length(t);
    for (std::int64_t i = 0; i < std::min(count, length); ++i)
      a.entry(t, first ? i : length - 1 - i) = -1;
  }
  return true;
}
bool drop_first(Attempt& a) { return drop(a, 1, true); }
bool drop_last(Attempt& a) { return drop(a, 1, false); }

// What is left over of whole tiles.
template <std::int64_t Tile>
bool drop_tail(Attempt& a) {
  bool changed = false;
  for (std::int64_t t = 0; t < a.tokens; ++t)
    for (std::int64_t j = a.length(t) / Tile * Tile; j < a.length(t); ++j) {
      changed = changed || a.is_present(t, j);
      a.entry(t, j) = -1;
    }
  return changed;
}
// Only what stands up to there.
template <std::int64_t Most>
bool keep_first(Attempt& a) {
  if (a.topk <= Most) return false;
  for (std::int64_t t = 0; t < a.tokens; ++t)
    for (std::int64_t j = Most; j < a.topk; ++j) a.entry(t, j) = -1;
  return true;
}

// Split results that never reach the merge.
bool first_half(Attempt& a) {
  for (std::int64_t t = 0; t < a.tokens; ++t)
    for (std::int64_t j = (a.topk + 1) / 2; j < a.topk; ++j) a.entry(t, j) = -1;
  return a.topk > 1;
}
bool second_half(Attempt& a) {
  for (std::int64_t t = 0; t < a.tokens; ++t)
    for (std::int64_t j = 0; j < (a.topk + 1) / 2; ++j) a.entry(t, j) = -1;
  return a.topk > 1;
}

bool first_row_lengths(Attempt& a) {
  if (a.lengths.empty() || a.tokens < 2) return false;
  std::fill(a.lengths.begin(), a.lengths.end(), a.lengths[0]);
  return true;
}

// ---- layout ----

bool first_row_indices(Attempt& a) {
  for (std::int64_t t = 1; t < a.tokens; ++t)
    std::copy_n(a.indices.begin(), a.topk, a.indices.begin() + t * a.topk);
  return a.tokens > 1;
}

bool next_slot(Attempt& a) {
  for (std::int64_t t = 0; t < a.tokens; ++t)
    for (std::int64_t j = 0; j < a.topk; ++j)
      if (a.is_present(t, j))
        a.entry(t, j) = (a.entry(t, j) + 1) % static_cast<std::int32_t>(a.slots);
  return a.slots > 1;
}

bool next_query(Attempt& a) {
  std::rotate(a.q.begin(), a.q.begin() + a.qk_dim, a.q.end());
  return a.tokens * a.heads > 1;
}

// The cache's own bytes by other strides; offsets modulo `wrap`.
bool read_by(Attempt& a, std::int64_t page_size, std::int64_t page_stride, std::int64_t row_stride,
             std::int64_t wrap = std::numeric_limits<std::int64_t>::max()) {
  const RowsView& view = a.original.problem.kv;
  if (a.original.recipe.kv == KvFormat::record656 || page_size < 1) return false;
  const std::span<const std::byte> bytes = a.original.cache_bytes();
  const std::int64_t width = a.qk_dim * static_cast<std::int64_t>(size_of(view.dtype));
  for (std::int64_t slot = 0; slot < a.slots; ++slot) {
    const std::int64_t at = (slot / page_size * page_stride + slot % page_size * row_stride) % wrap;
    if (at + width <= std::ssize(bytes))
      load_row(bytes.data() + at, view.dtype, a.qk_dim, a.row(slot));
  }
  return true;
}
bool no_gap(Attempt& a) {
  const RowsView& view = a.original.problem.kv;
  return a.original.recipe.page_gap > 0 &&
         read_by(a, view.page_size, view.page_size * view.row_stride, view.row_stride);
}
bool no_pad(Attempt& a) {
  const RowsView& view = a.original.problem.kv;
  return a.original.recipe.row_pad > 0 &&
         read_by(a, view.page_size, view.page_stride,
                 a.qk_dim * static_cast<std::int64_t>(size_of(view.dtype)));
}
template <std::int64_t Size>
bool page_of(Attempt& a) {
  const RowsView& view = a.original.problem.kv;
  return a.original.recipe.page_size > 0 && view.page_size != Size &&
         read_by(a, Size, view.page_stride, view.row_stride);
}

template <bool OfElements>
bool wrapped_offsets(Attempt& a) {
  const RowsView& view = a.original.problem.kv;
  const std::int64_t unit = OfElements ? static_cast<std::int64_t>(size_of(view.dtype)) : 1;
  return a.original.recipe.stretch && read_by(a, view.page_size, view.page_stride, view.row_stride,
                                              unit * (std::int64_t{1} << 32));
}

template <kv_record_656::Reader Reader>
bool read_records_by(Attempt& a) {
  SparseAttentionRecipe recipe = a.original.recipe;
  if (recipe.kv != KvFormat::record656 || recipe.reader == Reader) return false;
  recipe.reader = Reader;
  a.kv = SparseAttentionCase(recipe).read_rows;
  return true;
}

}  // namespace
}  // namespace of_keys

const std::vector<AttentionVariant>& attention_key_variants() {
  using namespace of_keys;
  using kv_record_656::Reader;
  static const std::vector<AttentionVariant> variants = {
      {"scores", "the RoPE elements were left out of q . k", no_rope},
      {"scores", "the elements before RoPE were left out of q . k", no_latent},
      {"scores", "the first element was left out of q . k", no_first_element},
      {"scores", "the last element was left out of q . k", no_last_element},
      {"scores", "the last 16 elements were left out of q . k", no_last_block},
      {"scores", "every second element was left out of q . k", no_odd_elements},
      {"scores", "the RoPE elements of q were interleaved", interleaved_rope},
      {"scores", "the RoPE elements of q were split into halves", halved_rope},
      {"selection", "topk_length was ignored", ignore_length},
      {"selection", "topk_length was one more", longer_by_one},
      {"selection", "topk_length was one less", shorter_by_one},
      {"selection", "the first row's topk_length stood for all", first_row_lengths},
      {"selection", "absent entries named slot 0", absent_as_first},
      {"selection", "absent entries named the last slot", absent_as_last},
      {"selection", "a repeated slot attended once", duplicates_once},
      {"selection", "the first entry was left out", drop_first},
      {"selection", "the last entry was left out", drop_last},
      {"selection", "entries past whole tiles of 16 were left out", drop_tail<16>},
      {"selection", "entries past whole tiles of 64 were left out", drop_tail<64>},
      {"selection", "entries past 64 were left out", keep_first<64>},
      {"selection", "entries past 1024 were left out", keep_first<1024>},
      {"selection", "entries past 2048 were left out", keep_first<2048>},
      {"merge", "the second half of the entries never reached the merge", first_half},
      {"merge", "the first half of the entries never reached the merge", second_half},
      {"layout", "every row had the first row's indices", first_row_indices},
      {"layout", "every entry named the slot after its own", next_slot},
      {"layout", "every head had the query after its own", next_query},
      {"layout", "the gap after a page was ignored", no_gap},
      {"layout", "the slack after a row was ignored", no_pad},
      {"layout", "pages had 64 rows", page_of<64>},
      {"layout", "pages had 1 row", page_of<1>},
      {"layout", "offsets into the cache wrapped at 2^32 bytes", wrapped_offsets<false>},
      {"layout", "offsets into the cache wrapped at 2^32 elements", wrapped_offsets<true>},
      {"layout", "records' scales were rounded to powers of two",
       read_records_by<Reader::e8m0_scale>},
      {"layout", "records' scales were rounded to bf16", read_records_by<Reader::bf16_scale>},
      {"layout", "records' scales were read as fp32", read_records_by<Reader::fp32_product>},
  };
  return variants;
}

}  // namespace mlacheck::stages
