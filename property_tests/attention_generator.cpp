#include <algorithm>
#include <array>

#include "property_tests/case_cost.h"
#include "property_tests/generators.h"

namespace mlacheck {
// Named too: batches of files compile as one, and the tables of operators are alike.
namespace of_attention {
namespace {

struct Dims {
  std::int64_t qk, v;
};

// The model's, without RoPE, and others that no kernel may take for granted.
const Table<Dims> kDims = {{{576, 512}, 140}, {{512, 512}, 10}, {{192, 128}, 10}, {{64, 64}, 10},
                           {{100, 36}, 6},    {{16, 16}, 12},   {{17, 5}, 6},     {{1, 1}, 2}};
// Of cases that are large in something else; rarely what alone some kernels take.
const Table<Dims> kTinyDims = {
    {{16, 16}, 400}, {{8, 5}, 400}, {{2, 1}, 200}, {{1, 1}, 100}, {{576, 512}, 1}};
const Table<Sizes> kFewHeads = {{1, 60}, {2, 30}, {3, 10}, {8, 10}, {16, 10}, {64, 5}, {128, 5}};
const Table<Sizes> kOneHead = {{1, 1000}, {8, 1}, {16, 1}, {64, 1}, {128, 1}};
const Table<Sizes> kFewEntries = {{2, 10},        {16, 20}, {17, 20},  {64, 20}, {65, 20},
                                  {{3, 130}, 40}, {512, 1}, {2048, 1}, {128, 1}};
const Table<Sizes> kHardlyAnEntry = {{0, 250}, {1, 250},  {2, 250}, {3, 250},
                                     {64, 1},  {2048, 1}, {512, 1}, {128, 1}};
const Table<Sizes> kManyEntries = {{2048, 10},         {2049, 30}, {4096, 10}, {4097, 10},
                                   {{2049, 6000}, 20}, {64, 1},    {512, 1},   {128, 1}};

const Table<Sizes> kTokens = {{0, 2},   {1, 30},       {2, 20},  {3, 20},  {4, 10},
                              {5, 10},  {{6, 8}, 10},  {15, 2},  {16, 2},  {17, 2},
                              {63, 2},  {64, 3},       {65, 3},  {127, 1}, {128, 1},
                              {129, 2}, {{9, 62}, 10}, {257, 1}, {576, 1}};
const Table<Sizes> kManyTokens = {{65, 4},  {{66, 100}, 3}, {127, 2}, {128, 1},
                                  {129, 3}, {257, 2},       {513, 1}, {{100, 600}, 3}};
const Table<Sizes> kHeads = {{1, 12}, {2, 6},   {3, 3},   {4, 6},        {7, 4},  {8, 12},
                             {9, 5},  {11, 8},  {15, 3},  {16, 12},      {17, 8}, {31, 2},
                             {32, 5}, {33, 3},  {63, 2},  {64, 5},       {65, 3}, {66, 4},
                             {96, 1}, {127, 1}, {128, 3}, {{1, 128}, 12}};
const Table<Sizes> kTopk = {{0, 3},    {1, 8},    {2, 5},    {3, 5},         {15, 5},
                            {16, 6},   {17, 6},   {31, 3},   {32, 4},        {33, 4},
                            {63, 6},   {64, 8},   {65, 8},   {127, 3},       {128, 4},
                            {129, 4},  {255, 2},  {256, 3},  {257, 3},       {511, 1},
                            {512, 3},  {513, 2},  {1024, 2}, {1025, 1},      {2047, 2},
                            {2048, 4}, {2049, 2}, {4097, 1}, {{4, 100}, 12}, {{100, 700}, 8}};
const Table<Sizes> kManySlots = {
    {4096, 2}, {8192, 2}, {{16384, 16385}, 3}, {{65535, 65537}, 6}, {131073, 1}};
const Table<Sizes> kRowPads = {{0, 10}, {8, 3}, {16, 1}, {24, 2},
                               {64, 1}, {1, 1}, {3, 1},  {700, 1}};

struct Types {
  DType q;
  KvFormat kv;
};
const Table<Types> kTypes = {
    {{DType::bf16, KvFormat::bf16}, 8},      {{DType::f16, KvFormat::f16}, 8},
    {{DType::f32, KvFormat::f32}, 2},        {{DType::bf16, KvFormat::f32}, 1},
    {{DType::f16, KvFormat::bf16}, 1},       {{DType::f32, KvFormat::f16}, 1},
    {{DType::bf16, KvFormat::record656}, 4}, {{DType::f16, KvFormat::record656}, 1}};
const Table<kv_record_656::Writer> kWriters = {{kv_record_656::Writer::arb, 2},
                                               {kv_record_656::Writer::p2_floor_on_amax, 1},
                                               {kv_record_656::Writer::p2_floor_on_scale, 1}};
const Table<kv_record_656::Reader> kReaders = {{kv_record_656::Reader::bf16_scale, 2},
                                               {kv_record_656::Reader::fp32_product, 1},
                                               {kv_record_656::Reader::e8m0_scale, 1}};
const Table<OutputType> kOutputs = {{OutputType::q, 2}, {OutputType::f32, 1}};

const Table<AttentionFill> kFills = {
    {AttentionFill::gaussian, 4}, {AttentionFill::peaky, 2},     {AttentionFill::biased, 3},
    {AttentionFill::sink_key, 2}, {AttentionFill::census, 4},    {AttentionFill::needle, 3},
    {AttentionFill::ladder, 3},   {AttentionFill::realistic, 3}, {AttentionFill::powers, 2}};
// Powers that every format holds, and those of bf16 and f32 alone: from subnormal keys to 400.
const Table<Sizes> kPowers = {{0, 30}, {-1, 1}, {1, 1}, {4, 1}, {7, 1}, {-8, 1}, {{-16, -14}, 1}};
const Table<Sizes> kWidePowers = {{0, 30},  {8, 2},   {1, 1},    {-1, 1},  {-8, 1},
                                  {-16, 1}, {-64, 1}, {-100, 1}, {-126, 1}};

const Table<IndexPattern> kIndices = {
    {IndexPattern::random, 10},    {IndexPattern::identity, 4},      {IndexPattern::duplicates, 4},
    {IndexPattern::descending, 2}, {IndexPattern::one_slot, 1},      {IndexPattern::with_first, 2},
    {IndexPattern::with_last, 2},  {IndexPattern::without_first, 2}, {IndexPattern::runs, 3}};
const Table<AbsentPlace> kAbsent = {{AbsentPlace::none, 12},     {AbsentPlace::prefix, 4},
                                    {AbsentPlace::suffix, 4},    {AbsentPlace::interleaved, 2},
                                    {AbsentPlace::scattered, 4}, {AbsentPlace::rows, 2},
                                    {AbsentPlace::all, 1},       {AbsentPlace::lead, 4}};
const Table<AbsentValue> kAbsentValues = {{AbsentValue::minus_one, 1}, {AbsentValue::extremes, 1}};
const Table<LengthPattern> kLengths = {{LengthPattern::full, 12},
                                       {LengthPattern::random, 6},
                                       {LengthPattern::edges, 5},
                                       {LengthPattern::zero, 1},
                                       {LengthPattern::tiles, 5}};
const Table<SinkPattern> kSinks = {{SinkPattern::none, 12},
                                   {SinkPattern::zero, 1},
                                   {SinkPattern::random, 4},
                                   {SinkPattern::extremes, 2},
                                   {SinkPattern::edges, 2}};
// GLM-5's, DeepSeek-V3.2's, the one of examples, 576^-0.5, and others.
const Table<float> kScales = {{0.0625f, 12}, {0.1352f, 6},  {0.041666668f, 4}, {1.0f, 4},
                              {0.0f, 1},     {-0.0625f, 1}, {0.011f, 1}};

std::string keys_of(const Types& types) {
  static constexpr std::array<const char*, 4> kNames = {"bf16", "f16", "f32", "record656"};
  return fmt::format("q={} kv={}", name_of(types.q), kNames[static_cast<std::size_t>(types.kv)]);
}

void draw_sizes(const Draw& draw, Large large, SparseAttentionRecipe& r) {
  const bool record = r.kv == KvFormat::record656;
  if (record) large = Large::nothing;
  const bool plain = large == Large::nothing;
  const Dims dims =
      record ? Dims{576, 512} : draw.supported("d", plain ? kDims : kTinyDims, [](const Dims& d) {
        return fmt::format("d={} v={}", d.qk, d.v);
      });
  r.qk_dim = dims.qk;
  r.v_dim = dims.v;
  r.heads = draw.supported_size("h", plain ? kHeads : large == Large::rows ? kOneHead : kFewHeads);
  switch (large) {
    case Large::nothing:
      r.tokens = draw.supported_size("t", kTokens);
      r.topk = draw.supported_size("k", kTopk);
      break;
    case Large::rows:
      r.tokens = past_grid_limit(draw);
      r.topk = draw.supported_size("k", kHardlyAnEntry);
      break;
    case Large::tokens:
      r.tokens = draw.supported_size("t", kManyTokens);
      r.topk = draw.supported_size("k", kFewEntries);
      break;
    case Large::entries:
      r.tokens = draw.range("t.few", 1, 3);
      r.topk = draw.supported_size("k", kManyEntries);
      break;
  }
  r.page_size = draw.supported_size("page", page_sizes());
  r.page_gap = r.page_size == 0 ? 0 : draw.supported_size("gap", page_gaps());
  r.slots = draw.once("n.large", 12) ? draw.size("n.of", kManySlots)
                                     : draw_around(draw, "n", r.topk, r.page_size, 1500);
  r.stretch = draw_stretch(draw, r.slots, r.page_size);
  if (r.stretch) r.page_gap = 0;
}

}  // namespace
}  // namespace of_attention

SparseAttentionRecipe draw_attention(Draw draw) {
  using namespace of_attention;
  SparseAttentionRecipe r;
  const Types types = draw.supported("types", kTypes, keys_of);
  r.q_dtype = types.q;
  r.kv = types.kv;
  const bool record = r.kv == KvFormat::record656;
  if (record) {
    r.writer = draw.one_of("writer", kWriters);
    r.reader = draw.one_of("reader", kReaders);
  }
  r.out = draw.supported("out", kOutputs,
                         [](OutputType out) { return out == OutputType::q ? "out=q" : "out=f32"; });
  r.fill = draw.one_of("fill", kFills);
  const bool wide = r.kv == KvFormat::bf16 || r.kv == KvFormat::f32;
  r.kv_power = draw.size("kv_power", wide ? kWidePowers : kPowers);
  r.poison = draw.once("poison", 2);
  if (r.poison) r.poison_as = draw.one_of("poison_as", poison_values());
  r.index = draw.one_of("index", kIndices);
  r.absent = draw.one_of("absent", kAbsent);
  r.absent_value = draw.one_of("absent_as", kAbsentValues);
  r.length = draw.supported("length", kLengths, [](LengthPattern length) {
    return length == LengthPattern::full ? "length=full" : "length=random";
  });
  r.junk = r.length != LengthPattern::full && draw.once("junk", 2);
  r.sm_scale = draw.one_of("scale", kScales);
  r.sink = draw.supported("sink", kSinks, [](SinkPattern sink) {
    return sink == SinkPattern::none ? "sink=none" : "sink=random";
  });
  r.seed = draw.bits("seed") >> 32;
  if (!record) r.row_pad = draw.supported_size("pad", kRowPads);
  r.q_pad = draw.size("q_pad", query_pads());

  const Extent extent = draw_extent(draw, 10);
  do {
    draw_sizes(draw, extent.large, r);
    draw.retry();
  } while (!extent.contains(cost_ms(r)) && draw.attempt() < Draw::kAttempts);
  // What a kernel insists on may cost more.
  if (cost_ms(r) > extent.max_ms) r.tokens = std::min<std::int64_t>(r.tokens, 1);
  if (cost_ms(r) > kMostMs) r.heads = r.topk = r.slots = 1;
  return r;
}

}  // namespace mlacheck
