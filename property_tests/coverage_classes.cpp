#include "property_tests/coverage_classes.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "fixtures/recipe_fields.h"

namespace mlacheck {
namespace {

struct Interval {
  std::string_view name;
  std::int64_t min;
  std::int64_t max;
};
struct Measure {
  std::string_view key;
  std::vector<Interval> intervals;
};
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

const std::vector<Measure> kMeasures = {
    {"t",
     {{"0", 0, 0},
      {"1", 1, 1},
      {"2-63", 2, 63},
      {"64", 64, 64},
      {"65-65534", 65, 65534},
      {"65535", 65535, 65535},
      {"more", 65536, kMost}}},
    {"h",
     {{"1", 1, 1},
      {"2-15", 2, 15},
      {"16", 16, 16},
      {"17-63", 17, 63},
      {"64", 64, 64},
      {"65-127", 65, 127},
      {"128", 128, 128},
      {"more", 129, kMost}}},
    {"k",
     {{"0", 0, 0},
      {"1-15", 1, 15},
      {"16-511", 16, 511},
      {"512-2047", 512, 2047},
      {"2048", 2048, 2048},
      {"more", 2049, kMost}}},
    {"n",
     {{"0", 0, 0},
      {"1", 1, 1},
      {"2-1023", 2, 1023},
      {"1024-16383", 1024, 16383},
      {"16384-65535", 16384, 65535},
      {"more", 65536, kMost}}},
    {"page",
     {{"flat", 0, 0},
      {"1", 1, 1},
      {"2", 2, 2},
      {"3-52", 3, 52},
      {"53", 53, 53},
      {"54-63", 54, 63},
      {"64", 64, 64},
      {"65-255", 65, 255},
      {"256", 256, 256},
      {"more", 257, kMost}}},
    {"gap", {{"0", 0, 0}, {"some", 1, kMost}}},
    {"pad", {{"0", 0, 0}, {"some", 1, kMost}}},
    {"q_pad", {{"0", 0, 0}, {"some", 1, kMost}}},
    {"kv_power", {{"subnormal", -126, -100}, {"down", -99, -1}, {"0", 0, 0}, {"up", 1, kMost}}},
    {"requests", {{"1", 1, 1}, {"some", 2, kMost}}},
    {"k mod 64", {{"0", 0, 0}, {"1", 1, 1}, {"2-62", 2, 62}, {"63", 63, 63}}},
    {"n - k", {{"less", -kMost, -2}, {"-1", -1, -1}, {"0", 0, 0}, {"1", 1, 1}, {"more", 2, kMost}}},
    {"n mod page", {{"0", 0, 0}, {"1", 1, 1}, {"more", 2, kMost}}},
};
const std::vector<std::pair<float, std::string_view>> kScales = {
    {0.0625f, "1/16"}, {0.1352f, "0.1352"}, {0.041666668f, "576^-0.5"}, {1.0f, "1"}};

const std::vector<Interval>* intervals_of(std::string_view key) {
  const auto found = std::ranges::find(kMeasures, key, &Measure::key);
  return found == kMeasures.end() ? nullptr : &found->intervals;
}

// What is told apart together, not by one key.
template <class R>
std::vector<std::pair<std::string_view, std::int64_t>> relations_of(const R& r) {
  if constexpr (requires { r.slots; })
    return {{"n - k", r.slots - r.topk},
            {"k mod 64", r.topk % 64},
            {"n mod page", r.page_size == 0 ? 0 : r.slots % r.page_size}};
  else if constexpr (requires { r.scores; })
    return {{"n - k", r.scores - r.topk}, {"k mod 64", r.topk % 64}};
  else if constexpr (requires { r.keys; })
    return {{"n mod page", r.page_size == 0 ? 0 : r.keys % r.page_size}};
  else
    return {};
}

// visit(key, classes, number of the recipe's class)
template <class Visit>
void visit_classes(const Recipe& recipe, Visit visit) {
  const auto measure = [&](std::string_view key, std::int64_t value) {
    const std::vector<Interval>* intervals = intervals_of(key);
    if (intervals == nullptr) return;
    std::vector<std::string> names;
    std::size_t at = 0;
    for (std::size_t i = 0; i < intervals->size(); ++i) {
      names.emplace_back((*intervals)[i].name);
      if ((*intervals)[i].min <= value && value <= (*intervals)[i].max) at = i;
    }
    visit(key, names, at);
  };
  std::visit(
      [&](const auto& r) {
        detail::visit_fields(r, [&]<class T, class D>(std::string_view key, const T& value,
                                                      const D& domain, std::string_view) {
          if constexpr (requires { domain.words; }) {
            std::vector<std::string> names;
            std::size_t at = 0;
            for (const auto& [word, candidate] : domain.words) {
              if (candidate == value) at = names.size();
              names.emplace_back(word);
            }
            visit(key, names, at);
          } else if constexpr (std::same_as<T, std::int64_t>) {
            measure(key, value);
          } else if constexpr (std::same_as<T, float>) {
            std::vector<std::string> names;
            std::size_t at = kScales.size();
            for (const auto& [scale, name] : kScales) {
              if (scale == value) at = names.size();
              names.emplace_back(name);
            }
            names.emplace_back("others");
            visit(key, names, at);
          }
        });
        for (const auto& [key, value] : relations_of(r)) measure(key, value);
      },
      recipe);
}

}  // namespace

std::vector<CoverageKey> coverage_keys(const Recipe& kind) {
  std::vector<CoverageKey> keys;
  visit_classes(kind,
                [&](std::string_view key, const std::vector<std::string>& names, std::size_t) {
                  keys.push_back({std::string(key), names});
                });
  return keys;
}

std::vector<std::size_t> coverage_classes(const Recipe& recipe) {
  std::vector<std::size_t> classes;
  visit_classes(recipe, [&](std::string_view, const std::vector<std::string>&, std::size_t at) {
    classes.push_back(at);
  });
  return classes;
}

ErrorClasses errors_of(Operator op) {
  using enum ErrorClass;
  switch (op) {
    case MLACHECK_SPARSE_ATTENTION:
      return {lost_key,    doubled_key,   misread_key,     absent_read,      query_key,
              rope_part,   softmax_scale, weight_rounding, partial_rounding, sink_rule,
              length_rule, empty_row,     address_width,   rescale,          run_dependence};
    case MLACHECK_INDEX_SCORES:
    case MLACHECK_INDEX_SELECT:
      return {misread_key, absent_read, query_key,     relu,        head_weight,   key_scale,
              key_range,   block_table, address_width, score_width, run_dependence};
    case MLACHECK_MAP_SLOTS:
      return {block_table};
    case MLACHECK_TOP_K:
      return {selection, tie_rule, nan_rule, key_range};
  }
  throw std::invalid_argument(fmt::format("errors_of: there is no operator {}", int{op}));
}

}  // namespace mlacheck
