#include "tools/bit_tables.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "fixtures/checkpoint/hash_checkpoint.h"
#include "fixtures/counter_random.h"
#include "fixtures/model/router.h"
#include "reference/arithmetic/dot_block.h"
#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/arithmetic/pow.h"
#include "reference/arithmetic/sincos.h"
#include "reference/formats/bf16.h"
#include "reference/formats/block_scale.h"
#include "reference/formats/e8m0.h"
#include "reference/formats/f16.h"
#include "reference/operators/index_key_page.h"
#include "reference/operators/kv_record_656.h"
#include "reference/operators/map_slots.h"
#include "tools/bit_tables_mma.h"

namespace mlacheck {
namespace {

template <class T>
Tensor tensor_of(std::string name, DType dtype, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {std::move(name), dtype, {std::ssize(values)}, {bytes, bytes + values.size() * sizeof(T)}};
}

// f at every 4099th of the 2^32 fp32 values, NaN, infinities and subnormals among them.
template <class T, class F>
std::vector<T> over_floats(F f) {
  constexpr std::uint64_t kStride = 4099;
  std::vector<T> values;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += kStride)
    values.push_back(f(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
  return values;
}

// to_float of every code.
template <class T, class Code>
std::vector<float> decoded() {
  std::vector<float> values;
  for (std::uint32_t code = 0; code < 1u << (8 * sizeof(Code)); ++code)
    values.push_back(to_float(T{static_cast<Code>(code)}));
  return values;
}

std::vector<Tensor> exp2_table(const BitTable&) {
  return {tensor_of("exp2_f32", DType::f32, over_floats<float>(exp2_f32))};
}

std::vector<Tensor> log2_table(const BitTable&) {
  return {tensor_of("log2_f32", DType::f32, over_floats<float>(log2_f32))};
}

std::vector<Tensor> sincos_table(const BitTable&) {
  const CounterRandom random(1, "sincos");
  std::vector<double> wide;
  std::vector<float> narrow;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const double angle = std::ldexp(static_cast<double>(random.bits(i) >> 11) - 0x1p52,
                                    static_cast<int>(i % 60) - 80);  // up to 2^31
    const SinCosF64 exact = sincos_f64(angle);
    const SinCos rounded = sincos_f32(static_cast<float>(angle));
    wide.insert(wide.end(), {exact.sin, exact.cos});
    narrow.insert(narrow.end(), {rounded.sin, rounded.cos});
  }
  return {tensor_of("f64", DType::f64, wide), tensor_of("f32", DType::f32, narrow)};
}

std::vector<Tensor> pow_table(const BitTable&) {
  const CounterRandom random(1, "pow");
  std::vector<double> powers, logarithms;
  for (const double theta : {1e4, 1e6, 8e6})
    for (int i = 0; i < 64; ++i) powers.push_back(pow_f64(theta, -2.0 * i / 128));
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const double base = std::ldexp(1 + static_cast<double>(random.bits(2 * i) >> 12) * 0x1p-52,
                                   static_cast<int>(i % 40) - 20);
    powers.push_back(pow_f64(base, static_cast<double>(random.normal(2 * i + 1)) * 10));
    logarithms.push_back(log_f64(base));
  }
  return {tensor_of("pow_f64", DType::f64, powers), tensor_of("log_f64", DType::f64, logarithms)};
}

std::vector<Tensor> conversion_table(const BitTable&) {
  return {tensor_of("to_f16", DType::f16, over_floats<F16>(to_f16)),
          tensor_of("to_bf16", DType::bf16, over_floats<Bf16>(to_bf16)),
          tensor_of("to_e4m3", DType::e4m3, over_floats<E4m3>(to_e4m3)),
          tensor_of("to_e4m3_saturating", DType::e4m3, over_floats<E4m3>(to_e4m3_saturating)),
          tensor_of("to_e8m0_toward_zero", DType::e8m0, over_floats<E8m0>(to_e8m0_toward_zero)),
          tensor_of("to_e8m0_up", DType::e8m0, over_floats<E8m0>(to_e8m0_up)),
          tensor_of("f16", DType::f32, decoded<F16, std::uint16_t>()),
          tensor_of("bf16", DType::f32, decoded<Bf16, std::uint16_t>()),
          tensor_of("e4m3", DType::f32, decoded<E4m3, std::uint8_t>()),
          tensor_of("e8m0", DType::f32, decoded<E8m0, std::uint8_t>())};
}

// Of an amax; a NaN's own bits would pass through ARB, and no amax is one.
std::vector<Tensor> block_scale_table(const BitTable&) {
  const auto amax = [](float x) { return x != x ? 0.0f : std::fabs(x); };
  return {tensor_of("p2", DType::f32,
                    over_floats<float>([&](float x) { return p2_scale(amax(x), 1e-4f); })),
          tensor_of("arb_divide", DType::f32, over_floats<float>([&](float x) {
                      return arb_scale(amax(x), 0, Division::divide);
                    })),
          tensor_of("arb_multiply", DType::f32, over_floats<float>([&](float x) {
                      return arb_scale(amax(x), 0, Division::multiply_by_reciprocal);
                    }))};
}

std::vector<Tensor> map_slots_table(const BitTable&) {
  const CounterRandom random(1, "map_slots");
  std::vector<Tensor> tensors;
  for (const std::int64_t block_size : {1, 16, 64, 100}) {
    std::vector<std::int32_t> table(50), positions(2000), slots(positions.size());
    for (std::size_t i = 0; i < table.size(); ++i)
      table[i] = static_cast<std::int32_t>(random.below(i, 1000)) - 100;
    const auto reach = static_cast<std::uint64_t>(60 * block_size);
    for (std::size_t i = 0; i < positions.size(); ++i)
      positions[i] = static_cast<std::int32_t>(random.below(100 + i, reach)) - 5;
    map_slots(positions, table, block_size, slots);
    tensors.push_back(tensor_of(fmt::format("block_size={}", block_size), DType::i32, slots));
  }
  return tensors;
}

// Rows of a cache: normal, of many magnitudes, rows of zeros, and elements that are NaN or Inf.
std::vector<float> cache_rows(std::int64_t rows, std::int64_t dim) {
  const CounterRandom random(1, "cache_rows");
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * dim; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const std::int64_t row = i / dim;
    float x = row % 8 == 7 ? 0 : std::ldexp(random.normal(index), static_cast<int>(row % 60) - 30);
    if (row % 4 == 1 && random.below(index, 500) == 0) x = std::bit_cast<float>(0x7fffffffu);
    if (row % 16 == 2 && random.below(index, 200) == 0) x = std::bit_cast<float>(0xff800000u);
    values.push_back(x);
  }
  return values;
}

constexpr std::int64_t kCacheRows = 96;

// Slots out of order, with holes; every 11th row is skipped.
std::vector<std::int32_t> cache_slots() {
  std::vector<std::int32_t> slots;
  for (std::int64_t i = 0; i < kCacheRows; ++i)
    slots.push_back(i % 11 == 10 ? -1 : static_cast<std::int32_t>(i * 37 % 101));
  return slots;
}

std::vector<Tensor> kv_record_656_table(const BitTable& table) {
  using namespace kv_record_656;
  constexpr std::int64_t kPage = 16, kStride = kPage * kBytes + 32;
  const PageLayout layout{101, kPage, kStride};
  const std::vector<std::int32_t> slots = cache_slots();
  std::vector<std::byte> cache(7 * kStride);
  write_cache(cache.data(), layout, slots, cache_rows(kCacheRows, kDim),
              static_cast<Writer>(table.variant));
  std::vector<Tensor> tensors = {tensor_of("cache", DType::u8, cache)};
  for (const Reader reader : {Reader::fp32_product, Reader::bf16_scale, Reader::e8m0_scale}) {
    std::vector<float> rows(kCacheRows * kDim);
    read_cache(cache.data(), layout, slots, reader, rows);
    tensors.push_back(
        tensor_of(fmt::format("reader {}", static_cast<int>(reader)), DType::f32, rows));
  }
  return tensors;
}

std::vector<Tensor> index_key_page_table(const BitTable& table) {
  using namespace index_key_page;
  const std::int64_t stride = table.variant * kBytesPerSlot + 64;
  const PageLayout layout{101, table.variant, stride};
  const std::vector<std::int32_t> slots = cache_slots();
  std::vector<std::byte> cache(static_cast<std::size_t>((101 / table.variant + 1) * stride));
  write_cache(cache.data(), layout, slots, cache_rows(kCacheRows, kDim), 1e-4f);
  std::vector<float> keys(kCacheRows * kDim);
  read_cache(cache.data(), layout, slots, keys);
  return {tensor_of("cache", DType::u8, cache), tensor_of("keys", DType::f32, keys)};
}

std::vector<Tensor> dot_block_table(const BitTable&) {
  constexpr std::int64_t kTokens = 70, kOutputs = 19, kElements = 2077;
  const auto values = [](std::string_view stream, std::int64_t rows) {
    const CounterRandom random(1, stream);
    std::vector<float> x;
    for (std::int64_t i = 0; i < rows * kElements; ++i)
      x.push_back(static_cast<float>(
                      static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(i)))) *
                  0x1p-31f);
    return x;
  };
  const std::vector<float> x = values("x", kTokens), w = values("w", kOutputs);
  std::vector<float> y(kTokens * kOutputs);
  dot_block({.x = x.data(),
             .x_stride = kElements,
             .tokens = kTokens,
             .w = w.data(),
             .outputs = kOutputs,
             .n = kElements,
             .y = y.data(),
             .y_stride = kOutputs});
  return {tensor_of("y", DType::f32, y)};
}

std::vector<Tensor> mma_table(const BitTable& table) {
  std::vector<Tensor> tensors;
  for (const MmaFill fill : kMmaFills)
    tensors.push_back(tensor_of(std::string(name_of(fill)), DType::f32,
                                mma_results(kTableMma[table.variant], fill)));
  return tensors;
}

// Of the models' routers, 256 experts in `variant` groups; every 7th logit is far out, some are
// equal.
std::vector<Tensor> router_table(const BitTable& table) {
  constexpr std::int64_t kTokens = 64, kExperts = 256;
  const DecoderConfig config{.n_routed_experts = kExperts,
                             .num_experts_per_tok = 8,
                             .n_group = table.variant,
                             .topk_group = (table.variant + 1) / 2,
                             .routed_scaling_factor = 2.5};
  const HashNormal logit("logits", 1, 1), bias("bias", 0.2, 1);
  Matrix logits(kTokens, kExperts);
  for (std::size_t i = 0; i < logits.data.size(); ++i)
    logits.data[i] = logit(i % 13 == 12 ? i - 1 : i) * (i % 7 == 6 ? 40.0f : 1.0f);
  std::vector<float> biases(kExperts);
  for (std::size_t i = 0; i < biases.size(); ++i) biases[i] = bias(i % 13 == 12 ? i - 1 : i);
  const Routing routing = route(logits, biases, config);
  return {tensor_of("experts", DType::i32, routing.experts),
          tensor_of("weights", DType::f32, routing.weights)};
}

std::vector<BitTable> make_tables() {
  using kv_record_656::Writer;
  std::vector<BitTable> tables = {
      {"exp2_f32", exp2_table},          {"log2_f32", log2_table},
      {"sincos", sincos_table},          {"pow", pow_table},
      {"conversions", conversion_table}, {"block_scales", block_scale_table},
      {"map_slots", map_slots_table}};
  const auto add_writer = [&](std::string_view name, Writer writer) {
    tables.push_back({fmt::format("kv_record_656.{}", name), kv_record_656_table, false,
                      static_cast<int>(writer)});
  };
  add_writer("p2_floor_on_amax", Writer::p2_floor_on_amax);
  add_writer("p2_floor_on_scale", Writer::p2_floor_on_scale);
  add_writer("arb", Writer::arb);
  for (const int page : {32, 64})
    tables.push_back({fmt::format("index_key_page.{}", page), index_key_page_table, false, page});
  for (const int groups : {1, 8})
    tables.push_back({fmt::format("router.{}", groups), router_table, false, groups});
  for (int i = 0; i < std::ssize(kTableMma); ++i)
    tables.push_back(
        {fmt::format("mma.{}.{}", name_of(kTableMma[i].element), name_of(kTableMma[i].lowering)),
         mma_table, true, i});
  tables.push_back({"dot_block", dot_block_table, true});
  return tables;
}

}  // namespace

const std::vector<BitTable>& bit_tables() {
  static const std::vector<BitTable> tables = make_tables();
  return tables;
}

const BitTable& bit_table(std::string_view name) {
  const auto& tables = bit_tables();
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const BitTable& table) { return table.name == name; });
  if (found == tables.end()) throw std::invalid_argument(fmt::format("no table '{}'", name));
  return *found;
}

}  // namespace mlacheck
