#include "property_tests/stages/stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "reference/formats/bf16.h"

// Kernels of plain loops in double, written apart from the variants, with one fault each that must
// be named.
namespace mlacheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct AttentionFault {
  const char* name;
  const char* stage;
  const char* as_if;
  const char* keys = "";  // of the recipe, beyond those of all
};

// Attention with the fault of that name.
class Attention {
 public:
  Attention(const SparseAttentionCase& c, std::string name)
      : r_(c.recipe), p_(c.problem), fault_(std::move(name)) {
    const std::int64_t row = p_.qk_dim + (is("no_pad") ? 0 : r_.row_pad);
    const std::int64_t page =
        (is("no_gap") ? r_.page_size * (p_.qk_dim + r_.row_pad) : c.cache_page_stride() / 2);
    for (std::int64_t slot = 0; slot < r_.slots; ++slot) {
      const std::int64_t at = slot / r_.page_size * page + slot % r_.page_size * row;
      std::vector<float> values(static_cast<std::size_t>(p_.qk_dim));
      const std::uint64_t address = static_cast<std::uint64_t>(at) * 2;
      load_row(c.cache_bytes().data() + (is("wraps_bytes") ? address & 0xffffffffu : address),
               DType::bf16, p_.qk_dim, values.data());
      rows_.push_back(std::move(values));
    }
  }

  SparseAttentionResult run() {
    SparseAttentionResult result;
    for (std::int64_t t = 0; t < r_.tokens; ++t)
      for (std::int64_t h = 0; h < r_.heads; ++h) attend(t, h, result);
    if (is("zeros"))
      for (auto* output : {&result.out, &result.lse, &result.max_logit})
        std::ranges::fill(*output, 0.0f);
    for (float& x : result.out)
      if (is("one_unit") && x > 0)
        x = to_float(Bf16{static_cast<std::uint16_t>(to_bf16(x).bits + 1)});
    return result;
  }

 private:
  bool is(std::string_view name) const { return fault_ == name; }

  std::vector<std::int32_t> entries(std::int64_t t) const {
    const std::int64_t row = is("first_indices") ? 0 : t;
    std::int64_t length = p_.topk_length == nullptr ? p_.topk : p_.topk_length[t];
    if (is("ignores_length")) length = p_.topk;
    if (is("long_by_one")) length = std::min(length + 1, p_.topk);
    if (is("drops_tail")) length -= length % 64;
    if (is("half")) length = std::min(length, p_.topk / 2);
    std::vector<std::int32_t> result;
    for (std::int64_t j = is("drops_first") ? 1 : 0; j < length; ++j) {
      std::int32_t slot = p_.indices[row * p_.topk + j];
      if (slot < 0 || slot >= r_.slots) {
        if (!is("reads_absent")) continue;
        slot = 0;
      }
      if (is("next_slot")) slot = (slot + 1) % static_cast<std::int32_t>(r_.slots);
      if (is("once") && std::count(result.begin(), result.end(), slot) > 0) continue;
      result.push_back(slot);
    }
    return result;
  }

  double score(const std::vector<float>& q, const std::vector<float>& k) const {
    const std::int64_t v = p_.v_dim, d = p_.qk_dim, half = (d - v) / 2;
    double dot = 0;
    for (std::int64_t i = is("no_latent") ? v : 0; i < (is("no_rope")    ? v
                                                        : is("no_block") ? d - 16
                                                                         : d);
         ++i) {
      std::int64_t from = i;
      if (is("interleaves") && i >= v) from = v + (i - v) / 2 + (i - v) % 2 * half;
      dot += static_cast<double>(q[static_cast<std::size_t>(from)]) *
             static_cast<double>(k[static_cast<std::size_t>(i)]);
    }
    double scale = static_cast<double>(p_.sm_scale);
    if (is("no_scale")) scale = 1;
    if (is("base_2")) scale *= std::numbers::ln2;
    if (is("twice")) scale *= scale;
    return scale * dot;
  }

  double weight(double w) const {
    if (is("bf16_weights"))
      return static_cast<double>(round_to(DType::bf16, static_cast<float>(w)));
    return w;
  }

  void attend(std::int64_t t, std::int64_t h, SparseAttentionResult& result) {
    std::vector<float> q(static_cast<std::size_t>(p_.qk_dim));
    const std::int64_t row =
        (t * r_.heads + h + (is("next_query") ? 1 : 0)) % (r_.tokens * r_.heads);
    load_row(query_address(p_.q, row / r_.heads, row % r_.heads), p_.q.dtype, p_.qk_dim, q.data());
    const std::vector<std::int32_t> slots = entries(t);
    std::vector<double> scores;
    double most = -kInfinity, sum = 0;
    for (const std::int32_t slot : slots) {
      scores.push_back(score(q, rows_[static_cast<std::size_t>(slot)]));
      most = std::max(most, scores.back());
    }
    for (const double s : scores) sum += std::exp(s - most);
    const double lse = slots.empty() ? -kInfinity : most + std::log(sum);
    std::vector<double> out(static_cast<std::size_t>(p_.v_dim));
    for (std::size_t j = 0; j < slots.size(); ++j) {
      const std::size_t from = is("next_value") ? (j + 1) % slots.size() : j;
      const std::vector<float>& value = rows_[static_cast<std::size_t>(slots[from])];
      const std::size_t shift =
          is("end_values") ? static_cast<std::size_t>(p_.qk_dim - p_.v_dim) : 0;
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] += weight(std::exp(scores[j] - most)) * static_cast<double>(value[i + shift]);
    }
    const std::size_t head = static_cast<std::size_t>(h + (is("next_sink") ? 1 : 0)) %
                             static_cast<std::size_t>(r_.heads);
    double sink = p_.attn_sink == nullptr || is("no_sink")
                      ? -kInfinity
                      : static_cast<double>(p_.attn_sink[head]);
    for (const double x : out) {
      const double factor = slots.empty() ? 1 : 1 / (1 + std::exp(sink - lse));
      const double normal = slots.empty() || is("not_normalised") ? 1 : sum;
      result.out.push_back(round_to(p_.out_dtype, static_cast<float>(x / normal * factor)));
    }
    double shown = lse;
    if (is("sink_in_lse")) shown = std::log(std::exp(lse) + std::exp(sink));
    if (is("lse_base_2")) shown *= std::numbers::log2e;
    if (is("lse_alone")) shown -= most;
    if (is("empty_zero") && slots.empty()) shown = kInfinity;
    result.lse.push_back(static_cast<float>(shown));
    if (is("raw_max")) most /= static_cast<double>(p_.sm_scale);
    result.max_logit.push_back(static_cast<float>(most));
  }

  const SparseAttentionRecipe& r_;
  const SparseAttentionProblem& p_;
  std::string fault_;
  std::vector<std::vector<float>> rows_;
};

SparseAttentionCase case_of(const std::string& keys) {
  std::string line =
      "mlacheck1 op=sparse_attention t=3 h=2 k=84 n=100 d=56 v=32 page=16 pad=8 sink=random ";
  for (const char* defaults : {"length=random", "absent=scattered", "gap=1", "out=f32"})
    if (keys.find(std::string(defaults).substr(0, 4)) == std::string::npos)
      line += std::string(" ") + defaults;
  return SparseAttentionCase(std::get<SparseAttentionRecipe>(parse_recipe(line + " " + keys)));
}

class AttentionStage : public ::testing::TestWithParam<AttentionFault> {};

TEST_P(AttentionStage, IsNamed) {
  const AttentionFault& fault = GetParam();
  const SparseAttentionCase c = case_of(fault.keys);
  // Loops in double keep a contract of one rounding.
  const NumericsContract contract;
  Patience patience;
  EXPECT_TRUE(suspects(c, contract, Attention(c, "none").run(), patience).empty());
  const std::vector<Suspect> found =
      suspects(c, contract, Attention(c, fault.name).run(), patience);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].as_if, fault.as_if);
  EXPECT_EQ(found[0].stage, fault.stage);
  EXPECT_LE(found[0].budget_used, 1);
}

// What there is no time for is counted.
TEST(Stage, IsGivenUpWhenTheTimeIsOver) {
  const SparseAttentionCase c = case_of("");
  Patience none(0), enough(600);
  EXPECT_TRUE(suspects(c, {}, Attention(c, "base_2").run(), none).empty());
  EXPECT_FALSE(suspects(c, {}, Attention(c, "base_2").run(), enough).empty());
  EXPECT_EQ(none.tried(), 0);
  EXPECT_GT(none.variants(), 20);
  EXPECT_EQ(enough.tried(), none.variants());
}

constexpr AttentionFault kAttentionFaults[] = {
    {"no_rope", "scores", "the RoPE elements were left out of q . k"},
    {"no_latent", "scores", "the elements before RoPE were left out of q . k"},
    {"no_block", "scores", "the last 16 elements were left out of q . k"},
    {"interleaves", "scores", "the RoPE elements of q were interleaved"},
    {"ignores_length", "selection", "topk_length was ignored"},
    {"long_by_one", "selection", "topk_length was one more", "absent=none"},
    {"reads_absent", "selection", "absent entries named slot 0"},
    {"drops_first", "selection", "the first entry was left out", "absent=none"},
    {"drops_tail", "selection", "entries past whole tiles of 64 were left out", "length=full"},
    {"once", "selection", "a repeated slot attended once", "index=duplicates"},
    {"half", "merge", "the second half of the entries never reached the merge"},
    {"first_indices", "layout", "every row had the first row's indices"},
    {"next_slot", "layout", "every entry named the slot after its own"},
    {"next_query", "layout", "every head had the query after its own"},
    {"no_gap", "layout", "the gap after a page was ignored"},
    {"no_pad", "layout", "the slack after a row was ignored"},
    {"wraps_bytes", "layout", "offsets into the cache wrapped at 2^32 bytes", "gap=0 stretch=on"},
    {"next_sink", "layout", "each head had the sink after its own"},
    {"no_scale", "softmax", "sm_scale was left out"},
    {"twice", "softmax", "sm_scale was applied twice"},
    {"base_2", "softmax", "the exponential had base 2"},
    {"not_normalised", "softmax", "out was not divided by the sum of the weights"},
    {"no_sink", "softmax", "the sink was ignored"},
    {"bf16_weights", "softmax", "weights were rounded to bf16"},
    {"next_value", "values", "each value was that of the entry after its own"},
    {"end_values", "values", "values were the last elements of a row"},
    {"sink_in_lse", "conventions", "lse included the sink, or not, other than declared"},
    {"lse_base_2", "conventions", "lse was in the other base"},
    {"lse_alone", "conventions", "lse lacked the maximum"},
    {"raw_max", "conventions", "max_logit lacked sm_scale"},
    {"empty_zero", "conventions", "lse of an empty row was +inf", "absent=rows"},
    {"zeros", "output", "all of out was 0"},
    {"one_unit", "output", "elements of out were one unit in the last place off", "out=q"},
};
INSTANTIATE_TEST_SUITE_P(Stage, AttentionStage, ::testing::ValuesIn(kAttentionFaults),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace mlacheck
