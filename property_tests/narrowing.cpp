#include "property_tests/narrowing.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace mlacheck {
namespace {

// Sizes and types that some kernel in the field insists on: small sizes and likely types first, as
// every answer costs a case.
using Choices = std::vector<std::vector<std::string>>;

Choices choices_of(const Recipe& kind) {
  if (std::holds_alternative<SparseAttentionRecipe>(kind))
    return {{"q=bf16 kv=bf16", "q=f16 kv=f16", "q=bf16 kv=record656", "q=f16 kv=record656",
             "q=f32 kv=f32"},
            {"h=1", "h=8", "h=16", "h=64", "h=128"},
            {"k=64", "k=2048", "k=512", "k=128"},
            {"page=64", "page=0", "page=1"},
            {"d=576 v=512", "d=512 v=512", "d=64 v=64"}};
  if (std::holds_alternative<IndexScoresRecipe>(kind))
    return {{"q=bf16 keys=bf16", "q=f16 keys=f16", "q=e4m3 keys=e4m3", "q=bf16 keys=e4m3",
             "q=f32 keys=f32"},
            {"h=1", "h=16", "h=32", "h=64"},
            {"page=64 table=shuffled", "page=64 table=none", "page=0 table=none"},
            {"d=128", "d=64"}};
  return {{"k=2048", "k=512", "k=64"}};
}

std::string_view small_sizes_of(const Recipe& kind) {
  if (std::holds_alternative<SparseAttentionRecipe>(kind))
    return "mlacheck1 op=sparse_attention t=1 n=128";
  if (std::holds_alternative<IndexScoresRecipe>(kind)) return "mlacheck1 op=index_scores t=1 n=256";
  return "mlacheck1 op=top_k t=1 n=4096";
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    const std::size_t length = std::min(line.find(' '), line.size());
    if (length > 0) words.emplace_back(line.substr(0, length));
    line.remove_prefix(std::min(length + 1, line.size()));
  }
  return words;
}

std::string_view key_of(std::string_view word) { return word.substr(0, word.find('=')); }

// The line with other values of some of its keys.
std::string with(const std::string& line, const std::string& keys) {
  std::vector<std::string> words = words_of(line);
  for (const std::string& changed : words_of(keys))
    for (std::string& word : words)
      if (key_of(word) == key_of(changed)) word = changed;
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : " ") + word;
  return result;
}

}  // namespace

Narrowing::Narrowing(const Recipe& kind, Asks supports) : supports_(std::move(supports)) {
  const Choices choices = choices_of(kind);
  const std::string plain = canonical(parse_recipe(small_sizes_of(kind)));
  // Every combination; the first key turns first.
  std::vector<std::size_t> at(choices.size());
  while (!small_) {
    std::string line = plain;
    for (std::size_t i = 0; i < choices.size(); ++i) line = with(line, choices[i][at[i]]);
    if (is_supported(line).value_or(false)) small_ = line;
    std::size_t i = 0;
    while (i < at.size() && ++at[i] == choices[i].size()) at[i++] = 0;
    if (i == at.size()) return;
  }
}

// Empty for no recipe: keys that contradict each other.
std::optional<bool> Narrowing::is_supported(const std::string& line) const {
  try {
    return supports_(parse_recipe(line));
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

bool Narrowing::allows(const std::string& keys) {
  if (!small_) return true;
  const auto known = answers_.find(keys);
  if (known != answers_.end()) return known->second;
  const bool answer = is_supported(with(*small_, keys)).value_or(true);
  answers_.emplace(keys, answer);
  return answer;
}

}  // namespace mlacheck
