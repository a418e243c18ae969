#include "reference/layer/numerics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "reference/layer/hadamard.h"

namespace mlacheck {
namespace {

template <typename Enum>
using Names = std::vector<std::pair<Enum, std::string_view>>;

Names<IndexQuantisation> names_of(IndexQuantisation) {
  using enum IndexQuantisation;
  return {{none, "none"}, {p2, "p2"}, {arb, "arb"}};
}
Names<IndexWeightOrder> names_of(IndexWeightOrder) {
  using enum IndexWeightOrder;
  return {{heads_scale_dim, "heads_scale_dim"}, {scale_dim_heads, "scale_dim_heads"}};
}
Names<HeadReduction> names_of(HeadReduction) {
  using enum HeadReduction;
  return {{ordered, "ordered"}, {sequential, "sequential"}};
}
Names<KvStorage> names_of(KvStorage) {
  using enum KvStorage;
  return {{plain, "plain"}, {record_656, "record_656"}};
}
Names<kv_record_656::Writer> names_of(kv_record_656::Writer) {
  using enum kv_record_656::Writer;
  return {{p2_floor_on_amax, "p2_floor_on_amax"},
          {p2_floor_on_scale, "p2_floor_on_scale"},
          {arb, "arb"}};
}
Names<kv_record_656::Reader> names_of(kv_record_656::Reader) {
  using enum kv_record_656::Reader;
  return {{fp32_product, "fp32_product"}, {bf16_scale, "bf16_scale"}, {e8m0_scale, "e8m0_scale"}};
}
Names<DType> names_of(DType) {
  return {{DType::f32, name_of(DType::f32)}, {DType::bf16, name_of(DType::bf16)}};
}
Names<bool> names_of(bool) { return {{false, "off"}, {true, "on"}}; }

// The one list of the fields and their names.
template <typename Numerics, typename Visit>
void for_each_field(Numerics& n, Visit&& visit) {
  visit("activations", n.activations);
  visit("eps_lora", n.eps_lora);
  visit("eps_knorm", n.eps_knorm);
  visit("rms_norm_roundings", n.rms_norm_roundings);
  visit("rope_table", n.rope_table);
  visit("rope_roundings", n.rope_roundings);
  visit("index_hadamard", n.index_hadamard);
  visit("index_quantisation", n.index_quantisation);
  visit("index_q_eps", n.index_q_eps);
  visit("index_k_eps", n.index_k_eps);
  visit("index_weights", n.index_weights);
  visit("index_weight_order", n.index_weight_order);
  visit("index_reduction", n.index_reduction);
  visit("softmax_weights", n.softmax_weights);
  visit("kv_storage", n.kv_storage);
  visit("kv_writer", n.kv_writer);
  visit("kv_reader", n.kv_reader);
}

template <typename Value>
std::string print(const Value& value) {
  if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, int>) {
    return fmt::format("{}", value);  // shortest text that reads back as the same number
  } else {
    for (const auto& [candidate, name] : names_of(value))
      if (candidate == value) return std::string(name);
    return "?";
  }
}

[[noreturn]] void refuse_field(std::string_view field, std::string_view expected,
                               std::string_view got) {
  throw std::invalid_argument(
      fmt::format("layer numerics: {}: expected {}, got {}", field, expected, got));
}

template <typename Value>
void read(std::string_view field, std::string_view text, Value& value) {
  if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, int>) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      refuse_field(field, "a number", text);
  } else {
    std::vector<std::string_view> expected;
    for (const auto& [candidate, name] : names_of(value)) {
      if (name == text) {
        value = candidate;
        return;
      }
      expected.push_back(name);
    }
    refuse_field(field, fmt::format("one of {}", fmt::join(expected, ", ")), text);
  }
}

void use_bf16(LayerNumerics& n, int rms_norm_roundings, DType rope_table, int rope_roundings) {
  n.activations = DType::bf16;
  n.rms_norm_roundings = rms_norm_roundings;
  n.rope_table = rope_table;
  n.rope_roundings = rope_roundings;
  n.softmax_weights = DType::bf16;
}

}  // namespace

LayerNumerics layer_numerics(std::string_view profile, DType activations, const ModelSizes& sizes) {
  if (activations != DType::f32 && activations != DType::bf16)
    refuse_field("activations", "f32 or bf16", name_of(activations));
  const bool bf16 = activations == DType::bf16;
  LayerNumerics n;
  if (profile == "hf") {
    n.eps_lora = 1e-6;
    if (bf16) use_bf16(n, 2, DType::bf16, 3);
  } else if (profile == "vllm") {
    n.eps_lora = sizes.rms_norm_eps;
    n.index_quantisation = IndexQuantisation::p2;
    n.index_q_eps = 1e-10;
    n.index_k_eps = 1e-4;
    n.index_weight_order = IndexWeightOrder::scale_dim_heads;
    n.kv_storage = KvStorage::record_656;
    n.kv_writer = kv_record_656::Writer::arb;
    if (bf16) {
      const bool yarn = sizes.rope.type == RopeType::yarn;
      use_bf16(n, 1, yarn ? DType::f32 : DType::bf16, 1);
      n.index_weights = DType::bf16;
    }
  } else if (profile == "deepseek") {
    n.eps_lora = 1e-6;
    n.index_hadamard = true;
    n.index_quantisation = IndexQuantisation::p2;
    n.index_q_eps = 1e-4;
    n.index_k_eps = 1e-4;
    n.kv_storage = KvStorage::record_656;
    n.kv_writer = kv_record_656::Writer::p2_floor_on_amax;
    if (bf16) use_bf16(n, 1, DType::f32, 1);
  } else {
    throw std::invalid_argument(fmt::format("unknown profile '{}': expected one of {}", profile,
                                            fmt::join(profile_names(), ", ")));
  }
  return n;
}

std::vector<std::string> profile_names() { return {"hf", "vllm", "deepseek"}; }

void validate(const LayerNumerics& n, const ModelSizes& sizes) {
  const bool bf16 = n.activations == DType::bf16;
  if (!bf16 && n.activations != DType::f32)
    refuse_field("activations", "f32 or bf16", name_of(n.activations));
  const auto rounding = [&](std::string_view field, int value, int two, int three) {
    const bool fits = bf16 ? value == two || value == three : value == 0;
    if (!fits)
      refuse_field(field,
                   bf16 ? fmt::format("{} or {} with bf16 activations", two, three)
                        : std::string("0 with f32 activations"),
                   fmt::format("{}", value));
  };
  rounding("rms_norm_roundings", n.rms_norm_roundings, 1, 2);
  rounding("rope_roundings", n.rope_roundings, 1, 3);
  for (const auto& [field, eps] : {std::pair{"eps_lora", n.eps_lora},
                                   {"eps_knorm", n.eps_knorm},
                                   {"index_q_eps", n.index_q_eps},
                                   {"index_k_eps", n.index_k_eps}})
    if (!(eps >= 0 && eps < 1)) refuse_field(field, "a number in [0, 1)", fmt::format("{}", eps));
  for (const auto& [field, dtype] : {std::pair{"rope_table", n.rope_table},
                                     {"index_weights", n.index_weights},
                                     {"softmax_weights", n.softmax_weights}})
    if (dtype != DType::f32 && dtype != DType::bf16)
      refuse_field(field, "f32 or bf16", name_of(dtype));
  if (n.index_hadamard && sizes.index_head_dim != kHadamardDim)
    refuse_field("index_hadamard", fmt::format("index_head_dim {}", kHadamardDim),
                 fmt::format("{}", sizes.index_head_dim));
  if (n.index_quantisation != IndexQuantisation::none)
    for (const auto& [field, eps] :
         {std::pair{"index_q_eps", n.index_q_eps}, {"index_k_eps", n.index_k_eps}})
      if (!(eps > 0)) refuse_field(field, "above 0, or a vector of zeros has no scale", "0");
  if (n.kv_storage == KvStorage::record_656 && (sizes.kv_lora_rank != kv_record_656::kLatent ||
                                                sizes.qk_rope_head_dim != kv_record_656::kRope))
    refuse_field("kv_storage", "kv_lora_rank 512 and qk_rope_head_dim 64 for the record",
                 fmt::format("{} and {}", sizes.kv_lora_rank, sizes.qk_rope_head_dim));
}

std::string to_string(const LayerNumerics& numerics) {
  std::string text;
  for_each_field(numerics, [&](std::string_view field, const auto& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", field, print(value));
  });
  return text;
}

LayerNumerics parse_layer_numerics(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> given;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) refuse_field(entry, "name=value", entry);
    const std::string_view field = entry.substr(0, equals);
    for (const auto& [earlier, value] : given)
      if (earlier == field) refuse_field(field, "one value", "two");
    given.emplace_back(field, entry.substr(equals + 1));
  }
  LayerNumerics numerics;
  for_each_field(numerics, [&](std::string_view field, auto& value) {
    const auto it = std::find_if(given.begin(), given.end(),
                                 [&](const auto& entry) { return entry.first == field; });
    if (it == given.end()) refuse_field(field, "a value", "none");
    read(field, it->second, value);
    given.erase(it);
  });
  if (!given.empty()) refuse_field(given.front().first, "a known field", given.front().second);
  return numerics;
}

}  // namespace mlacheck
