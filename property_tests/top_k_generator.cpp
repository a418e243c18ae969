#include <algorithm>

#include "property_tests/case_cost.h"
#include "property_tests/generators.h"

namespace mlacheck {
// Named too: batches of files compile as one, and the tables of operators are alike.
namespace of_selections {
namespace {

const Table<Sizes> kTokens = {{0, 2},       {1, 30},  {2, 15}, {3, 15}, {4, 10},
                              {{5, 8}, 15}, {16, 2},  {17, 2}, {64, 2}, {{9, 40}, 5},
                              {65, 2},      {129, 1}, {257, 1}};
const Table<Sizes> kTopk = {
    {0, 2},     {1, 8},    {2, 6},    {4, 4},    {16, 6},        {63, 2},         {64, 4},
    {65, 3},    {128, 3},  {192, 2},  {255, 2},  {256, 3},       {257, 2},        {511, 2},
    {512, 5},   {513, 2},  {1023, 2}, {1024, 4}, {1025, 2},      {1152, 2},       {2047, 3},
    {2048, 16}, {2049, 3}, {2176, 2}, {4096, 1}, {{3, 300}, 12}, {{300, 2100}, 4}};
// Lengths at which kernels in the field have gone wrong: stashes, tiles, powers of two and beside.
const Table<Sizes> kScores = {{8320, 4},
                              {9407, 4},
                              {4096, 2},
                              {4097, 3},
                              {8192, 2},
                              {8193, 3},
                              {{16383, 16449}, 4},
                              {{1, 3000}, 10},
                              {{3000, 20000}, 6},
                              {{32767, 32769}, 3},
                              {{65535, 65537}, 3},
                              {131072, 1},
                              {{262143, 262209}, 2},
                              {1048576, 1},
                              {1048577, 1}};
const Table<RangePattern> kRanges = {{RangePattern::full, 5},
                                     {RangePattern::causal, 4},
                                     {RangePattern::random, 6},
                                     {RangePattern::edges, 3}};
const Table<ScoreFill> kFills = {
    {ScoreFill::gaussian, 4}, {ScoreFill::zeros, 2},     {ScoreFill::plateau, 3},
    {ScoreFill::specials, 3}, {ScoreFill::winners, 3},   {ScoreFill::two_values, 2},
    {ScoreFill::constant, 1}, {ScoreFill::narrow, 3},    {ScoreFill::near_equal, 3},
    {ScoreFill::radix, 3},    {ScoreFill::past_fp16, 2}, {ScoreFill::minus_inf, 2},
    {ScoreFill::nan, 2},      {ScoreFill::ascending, 1}, {ScoreFill::descending, 1}};

void draw_sizes(const Draw& draw, Large large, TopKRecipe& r) {
  const bool many_rows = large == Large::rows;
  r.tokens = many_rows ? past_grid_limit(draw) : draw.supported_size("t", kTokens);
  r.topk = many_rows ? draw.range("k.few", 0, 4) : draw.supported_size("k", kTopk);
  r.scores = many_rows             ? draw.range("n.few", 0, 9)
             : draw.once("n.k", 2) ? draw_around(draw, "n.around", r.topk, 64, 9000)
                                   : draw.size("n", kScores);
}

}  // namespace
}  // namespace of_selections

TopKRecipe draw_top_k(Draw draw) {
  using namespace of_selections;
  TopKRecipe r;
  r.range = draw.one_of("range", kRanges);
  r.fill = draw.one_of("fill", kFills);
  r.poison = draw.once("poison", 2);
  r.seed = draw.bits("seed") >> 32;
  const Extent extent = draw_extent(draw, 10);
  do {
    draw_sizes(draw, extent.large, r);
    draw.retry();
  } while (!extent.contains(cost_ms(r)) && draw.attempt() < Draw::kAttempts);
  if (cost_ms(r) > extent.max_ms) r.tokens = std::min<std::int64_t>(r.tokens, 1);
  if (cost_ms(r) > kMostMs) r.scores = r.topk = 1;
  return r;
}

}  // namespace mlacheck
