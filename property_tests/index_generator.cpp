#include <algorithm>

#include "property_tests/case_cost.h"
#include "property_tests/generators.h"

namespace mlacheck {
// Named too: batches of files compile as one, and the tables of operators are alike.
namespace of_scores {
namespace {

const Table<Sizes> kTokens = {{0, 2},       {1, 30}, {2, 20},  {3, 20},     {4, 10},
                              {{5, 8}, 20}, {15, 2}, {16, 2},  {17, 2},     {63, 2},
                              {64, 3},      {65, 3}, {129, 1}, {{9, 40}, 8}};

const Table<Sizes> kHeads = {{1, 8},   {2, 4},  {3, 2},  {4, 4},   {8, 6},
                             {11, 3},  {15, 2}, {16, 6}, {17, 3},  {31, 2},
                             {32, 16}, {33, 4}, {63, 2}, {64, 16}, {{1, 128}, 10}};
const Table<Sizes> kDims = {{128, 80}, {64, 6}, {32, 4}, {127, 2}, {192, 2}, {16, 2}, {1, 1}};
// Where a kernel's tiles, a selection of a quarter of the keys, and pages end.
const Table<Sizes> kKeys = {{0, 3},
                            {1, 5},
                            {2, 3},
                            {3, 3},
                            {15, 3},
                            {16, 3},
                            {17, 3},
                            {63, 4},
                            {64, 5},
                            {65, 5},
                            {127, 4},
                            {128, 5},
                            {129, 5},
                            {255, 3},
                            {256, 3},
                            {257, 3},
                            {511, 2},
                            {513, 2},
                            {1023, 2},
                            {1024, 3},
                            {1025, 3},
                            {2047, 1},
                            {2049, 1},
                            {8320, 1},
                            {{4, 500}, 20},
                            {{500, 3000}, 10},
                            {{8190, 8194}, 2},
                            {{16383, 16385}, 2},
                            {{65535, 65537}, 3},
                            {131073, 1}};

// Of cases that are large in keys; rarely what alone some kernels take.
const Table<Sizes> kManyKeys = {
    {{4095, 4097}, 2}, {{8190, 8194}, 2}, {{16383, 16385}, 2}, {{65535, 65537}, 3}, {131073, 2}};
const Table<Sizes> kTinyDims = {{16, 200}, {1, 100}, {32, 50}, {128, 1}, {64, 1}};
const Table<Sizes> kFewHeads = {{1, 200}, {2, 100}, {3, 50}, {16, 1}, {32, 1}, {64, 1}};

struct Types {
  DType q, keys;
};
const Table<Types> kTypes = {{{DType::bf16, DType::bf16}, 8}, {{DType::f16, DType::f16}, 5},
                             {{DType::e4m3, DType::e4m3}, 6}, {{DType::bf16, DType::e4m3}, 4},
                             {{DType::f32, DType::f32}, 2},   {{DType::f16, DType::e4m3}, 2},
                             {{DType::bf16, DType::f16}, 1},  {{DType::e4m3, DType::bf16}, 1},
                             {{DType::f32, DType::bf16}, 1}};
const Table<BlockTable> kTables = {
    {BlockTable::none, 3}, {BlockTable::identity, 2}, {BlockTable::shuffled, 6}};
const Table<Sizes> kRequests = {{1, 6}, {2, 3}, {3, 2}, {{4, 9}, 1}};
const Table<RangePattern> kRanges = {{RangePattern::full, 4},
                                     {RangePattern::causal, 5},
                                     {RangePattern::random, 5},
                                     {RangePattern::edges, 4}};
const Table<IndexFill> kFills = {{IndexFill::gaussian, 8},  {IndexFill::plateau, 4},
                                 {IndexFill::zeros, 1},     {IndexFill::narrow, 3},
                                 {IndexFill::past_fp16, 2}, {IndexFill::one_key, 2}};
const Table<HeadReduction> kReductions = {{HeadReduction::ordered, 4},
                                          {HeadReduction::sequential, 1}};

void draw_sizes(const Draw& draw, Large large, IndexScoresRecipe& r) {
  const bool many_rows = large == Large::rows;
  const bool many_keys = large == Large::entries && r.key_dtype != DType::e4m3;
  r.dim = r.key_dtype == DType::e4m3 ? 128
          : many_rows                ? draw.range("d.few", 1, 4)
          : many_keys                ? draw.supported_size("d", kTinyDims)
                                     : draw.supported_size("d", kDims);
  r.tokens = many_rows ? past_grid_limit(draw) : draw.supported_size("t", kTokens);
  r.heads = many_rows   ? draw.range("h.few", 1, 2)
            : many_keys ? draw.supported_size("h", kFewHeads)
                        : draw.supported_size("h", kHeads);
  r.keys = many_rows ? draw.range("n.few", 0, 3) : draw.size("n", many_keys ? kManyKeys : kKeys);
  r.page_size = draw.supported_size("page", page_sizes());
  if (r.table != BlockTable::none && r.page_size == 0) r.page_size = 64;
  r.page_gap = r.page_size == 0 ? 0 : draw.supported_size("gap", page_gaps());
  if (r.page_size != 0 && !many_rows && !many_keys && draw.once("n.pages", 4))
    r.keys = draw_around(draw, "n.around", r.page_size, r.page_size, 600);
  r.stretch = draw_stretch(draw, r.requests * r.keys, r.page_size);
  if (r.stretch) r.page_gap = 0;
}

}  // namespace
}  // namespace of_scores

IndexScoresRecipe draw_index_scores(Draw draw, bool needs_table) {
  using namespace of_scores;
  IndexScoresRecipe r;
  const Types types = draw.supported("types", kTypes, [](const Types& t) {
    return fmt::format("q={} keys={}", name_of(t.q), name_of(t.keys));
  });
  r.q_dtype = types.q;
  r.key_dtype = types.keys;
  r.table = draw.supported("table", kTables, [](BlockTable table) {
    return table == BlockTable::none ? "table=none" : "table=shuffled";
  });
  if (needs_table && r.table == BlockTable::none) r.table = BlockTable::shuffled;
  if (r.table != BlockTable::none) r.requests = draw.size("requests", kRequests);
  r.range = draw.supported("range", kRanges, [](RangePattern range) {
    return range == RangePattern::full ? "range=full" : "range=random";
  });
  r.fill = draw.one_of("fill", kFills);
  r.poison = draw.once("poison", 2);
  if (r.poison) r.poison_as = draw.one_of("poison_as", poison_values());
  r.q_pad = draw.size("q_pad", query_pads());
  r.reduction = draw.one_of("reduction", kReductions);
  r.seed = draw.bits("seed") >> 32;

  const Extent extent = draw_extent(draw, 40);
  do {
    draw_sizes(draw, extent.large, r);
    draw.retry();
  } while (!extent.contains(cost_ms(r)) && draw.attempt() < Draw::kAttempts);
  if (cost_ms(r) > extent.max_ms) r.tokens = std::min<std::int64_t>(r.tokens, 1);
  if (cost_ms(r) > kMostMs) r.heads = r.keys = r.requests = 1;
  return r;
}

}  // namespace mlacheck
