#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "fixtures/counter_random.h"
#include "fixtures/recipe.h"
#include "property_tests/narrowing.h"

namespace mlacheck {

// Something to draw, `weight` times as often as something of weight 1.
template <class T>
struct Weighted {
  T value;
  std::uint64_t weight;
};
template <class T>
using Table = std::vector<Weighted<T>>;

// A size: one, or any of [min, max].
struct Sizes {
  std::int64_t min;
  std::int64_t max;
  constexpr Sizes(std::int64_t size) : min(size), max(size) {}
  constexpr Sizes(std::int64_t first, std::int64_t last) : min(first), max(last) {}
};

// Draws the keys of one recipe, each from a stream of its name.
class Draw {
 public:
  static constexpr std::uint64_t kAttempts = 256;

  // One in 16 is drawn as if there were no narrowing: kernels must refuse what they do not take.
  Draw(std::string_view op, std::uint64_t seed, std::uint64_t number, Narrowing* narrowing)
      : op_(op), seed_(seed), number_(number) {
    if (!once("wide", 16)) narrowing_ = narrowing;
  }

  // Sizes that are too much together are drawn again, as attempt 1, 2, ...
  void retry() { ++attempt_; }
  std::uint64_t attempt() const { return attempt_; }

  std::uint64_t bits(std::string_view key) const { return random(key).bits(index(0)); }
  std::int64_t range(std::string_view key, std::int64_t min, std::int64_t max) const {
    const auto span = static_cast<std::uint64_t>(max - min + 1);
    return min + static_cast<std::int64_t>(random(key).below(index(0), span));
  }
  // Once in `of`.
  bool once(std::string_view key, std::uint64_t of) const {
    return random(key).below(index(0), of) == 0;
  }

  template <class T>
  T one_of(std::string_view key, const Table<T>& table) const {
    return one_of(key, table, [](const T&) { return true; });
  }
  // Of what the kernel supports, if any of it: `keys` says a value as a recipe does, "d=64 v=64".
  template <class T, class Keys>
  T supported(std::string_view key, const Table<T>& table, Keys keys) const {
    if (narrowing_ == nullptr) return one_of(key, table);
    return one_of(key, table, [&](const T& value) { return narrowing_->allows(keys(value)); });
  }
  std::int64_t size(std::string_view key, const Table<Sizes>& table) const {
    return within(key, one_of(key, table));
  }
  // `key` is one of a recipe's. A range is supported where its ends are, and an odd number between.
  std::int64_t supported_size(std::string_view key, const Table<Sizes>& table) const {
    if (narrowing_ == nullptr) return size(key, table);
    const auto allows = [&](std::int64_t n) {
      return narrowing_->allows(fmt::format("{}={}", key, n));
    };
    return within(key, one_of(key, table, [&](const Sizes& sizes) {
                    return allows(sizes.min) &&
                           (sizes.min == sizes.max ||
                            (allows(sizes.max) && allows((sizes.min + sizes.max) / 2 | 1)));
                  }));
  }

 private:
  template <class T, class Allows>
  T one_of(std::string_view key, const Table<T>& table, Allows allows) const {
    std::vector<Weighted<T>> allowed;
    for (const auto& entry : table)
      if (allows(entry.value)) allowed.push_back(entry);
    const Table<T>& from = allowed.empty() ? table : allowed;
    std::uint64_t sum = 0;
    for (const auto& entry : from) sum += entry.weight;
    std::uint64_t place = random(key).below(index(0), sum);
    for (const auto& entry : from) {
      if (place < entry.weight) return entry.value;
      place -= entry.weight;
    }
    return from.back().value;
  }
  std::int64_t within(std::string_view key, const Sizes& sizes) const {
    const auto span = static_cast<std::uint64_t>(sizes.max - sizes.min + 1);
    return sizes.min + static_cast<std::int64_t>(random(key).below(index(1), span));
  }
  CounterRandom random(std::string_view key) const {
    return {seed_, fmt::format("recipe.{}.{}", op_, key)};
  }
  // Two values for each key and attempt.
  std::uint64_t index(std::uint64_t value) const {
    return (number_ * kAttempts + attempt_) * 2 + value;
  }

  std::string op_;
  std::uint64_t seed_;
  std::uint64_t number_;
  std::uint64_t attempt_ = 0;
  Narrowing* narrowing_ = nullptr;
};

// Of the keys that are drawn alike for every operator.
Table<Sizes> page_sizes();
Table<Sizes> page_gaps();
Table<Sizes> query_pads();
Table<PoisonValue> poison_values();
// Around n: the number itself, one more and less, its half and double; whole pages, a slot more and
// less; few; any up to `most`.
std::int64_t draw_around(const Draw& draw, std::string_view key, std::int64_t n, std::int64_t page,
                         std::int64_t most);
// The most that a kernel's demands may make of a case.
inline constexpr double kMostMs = 1000;
// At times, where there are pages, and not too many.
bool draw_stretch(const Draw& draw, std::int64_t slots, std::int64_t page);
// What a case is large in, if in anything: it is small in all else then, and costs no more than
// others.
enum class Large : std::uint8_t {
  nothing,
  rows,     // past the limit of a grid, 65,535
  tokens,   // past what a kernel takes at once: 64
  entries,  // past what a row has in the models: 2048
};
// How long a case is to take: nearly always little.
struct Extent {
  double min_ms;
  double max_ms;
  Large large = Large::nothing;

  bool contains(double cost_ms) const { return min_ms <= cost_ms && cost_ms <= max_ms; }
};
// `rows`: how often many rows are drawn, of 2000.
Extent draw_extent(const Draw& draw, std::uint64_t rows);
std::int64_t past_grid_limit(const Draw& draw);

}  // namespace mlacheck
