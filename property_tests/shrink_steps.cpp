#include "property_tests/shrink_steps.h"

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>

#include "fixtures/recipe_fields.h"

namespace mlacheck::detail {
namespace {

template <class T>
constexpr bool kIsCount = std::is_same_v<T, Count>;

// ---- What hangs on a key ----

void settle(EntrySet& only, std::int64_t count) {
  const std::vector<std::int64_t> kept = only.places(count);
  only = std::ssize(kept) == count ? EntrySet() : EntrySet::of(kept);
}

void settle(SparseAttentionRecipe& r) {
  const SparseAttentionRecipe defaults;
  r.v_dim = std::min(r.v_dim, r.qk_dim);
  if (r.page_size == 0) {
    r.page_gap = 0;
    r.stretch = false;
  }
  if (r.kv != KvFormat::record656) {
    r.writer = defaults.writer;
    r.reader = defaults.reader;
  }
  settle(r.only, r.topk);
}

void settle(IndexScoresRecipe& r) {
  if (r.page_size == 0) {
    r.page_gap = 0;
    r.stretch = false;
    r.table = BlockTable::none;
  }
  if (r.table == BlockTable::none) r.requests = 1;
}

void settle(TopKRecipe& r) { settle(r.only, r.scores); }

void settle(LayerRecipe& r) {
  r.layer = std::min(r.layer, model_sizes(r.model).num_hidden_layers - 1);
}

// ---- Values, from simple to not ----

std::vector<AttentionFill> simpler(AttentionFill fill) {
  const std::vector<AttentionFill> order = {AttentionFill::census, AttentionFill::needle,
                                            AttentionFill::gaussian};
  return {order.begin(), std::find(order.begin(), order.end(), fill)};
}

std::vector<IndexFill> simpler(IndexFill fill) {
  const std::vector<IndexFill> order = {IndexFill::zeros, IndexFill::plateau, IndexFill::gaussian};
  return {order.begin(), std::find(order.begin(), order.end(), fill)};
}

std::vector<ScoreFill> simpler(ScoreFill fill) {
  const std::vector<ScoreFill> order = {
      ScoreFill::constant,   ScoreFill::zeros,   ScoreFill::two_values, ScoreFill::ascending,
      ScoreFill::descending, ScoreFill::plateau, ScoreFill::gaussian};
  return {order.begin(), std::find(order.begin(), order.end(), fill)};
}

template <class R>
std::vector<Recipe> with_simpler_fills(const R& recipe) {
  std::vector<Recipe> result;
  for (const auto fill : simpler(recipe.fill)) {
    R r = recipe;
    r.fill = fill;
    result.emplace_back(r);
  }
  return result;
}

std::vector<Recipe> with_simpler_fills(const LayerRecipe&) { return {}; }

bool is_value(std::string_view key) {
  return key == "fill" || key == "kv_power" || key == "seed" || key == "only";
}

// A model's default is the large one.
bool is_flag(std::string_view key) { return !is_value(key) && key != "model"; }

template <class R>
std::map<std::string_view, std::string> texts_of(const R& recipe) {
  std::map<std::string_view, std::string> texts;
  visit_fields(recipe, [&](std::string_view name, const auto& value, const auto& domain, auto) {
    texts.emplace(name, domain.print(value));
  });
  return texts;
}

template <class R>
R with_default(R recipe, std::string_view key, const std::string& text) {
  visit_fields(recipe, [&](std::string_view name, auto& value, const auto& domain, auto) {
    if (name == key) value = domain.parse(text).value();
  });
  settle(recipe);
  return recipe;
}

// kv_power counts nothing.
bool is_size(std::string_view key) { return key != "kv_power"; }

struct Size {
  std::string_view key;
  std::int64_t value;
  std::int64_t least;
};

std::vector<Size> sizes_of(const Recipe& recipe) {
  std::vector<Size> sizes;
  std::visit(
      [&](const auto& r) {
        visit_fields(r,
                     [&]<class D>(std::string_view name, const auto& value, const D& domain, auto) {
                       if constexpr (kIsCount<D>)
                         if (is_size(name)) sizes.push_back({name, value, domain.min});
                     });
      },
      recipe);
  return sizes;
}

Size size(const Recipe& recipe, std::string_view key) {
  const std::vector<Size> sizes = sizes_of(recipe);
  return *std::find_if(sizes.begin(), sizes.end(), [&](const Size& s) { return s.key == key; });
}

std::int64_t page_of(const Recipe& recipe) {
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe))
    return attention->page_size;
  const auto* scores = std::get_if<IndexScoresRecipe>(&recipe);
  return scores != nullptr ? scores->page_size : 0;
}

}  // namespace

std::vector<std::string_view> size_keys(const Recipe& recipe) {
  std::vector<std::string_view> keys;
  for (const Size& s : sizes_of(recipe)) keys.push_back(s.key);
  return keys;
}

std::int64_t size_of(const Recipe& recipe, std::string_view key) { return size(recipe, key).value; }

Recipe with_size(const Recipe& recipe, std::string_view key, std::int64_t value) {
  return std::visit(
      [&](auto r) -> Recipe {
        visit_fields(r, [&]<class D>(std::string_view name, auto& field, const D&, auto) {
          if constexpr (kIsCount<D>)
            if (name == key) field = value;
        });
        settle(r);
        return r;
      },
      recipe);
}

std::vector<std::int64_t> smaller_sizes(const Recipe& recipe, std::string_view key) {
  const Size now = size(recipe, key);
  std::vector<std::int64_t> sizes = {now.least, now.value - 1};
  const auto add = [&](std::int64_t boundary) {
    for (const std::int64_t s : {boundary, boundary + 1})
      if (now.least < s && s < now.value) sizes.push_back(s);
  };
  for (std::int64_t power = 1; power < now.value; power *= 2) add(power);
  const std::int64_t page = page_of(recipe);
  for (const std::int64_t pages : {1, 2}) add(pages * page);
  std::erase_if(sizes, [&](std::int64_t s) { return s < now.least || s >= now.value; });
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<Recipe> plainer(const Recipe& recipe) {
  std::vector<Recipe> result;
  std::visit(
      [&]<class R>(const R& r) {
        const auto defaults = texts_of(R{});
        const auto now = texts_of(r);
        visit_fields(r, [&]<class D>(std::string_view name, const auto&, const D&, auto) {
          if constexpr (!kIsCount<D>)
            if (is_flag(name) && now.at(name) != defaults.at(name))
              result.emplace_back(with_default(r, name, defaults.at(name)));
        });
        if constexpr (std::is_same_v<R, LayerRecipe>) {
          LayerRecipe tiny = r;
          tiny.model += ":tiny";
          const std::vector<std::string> names = model_names();
          if (std::find(names.begin(), names.end(), tiny.model) == names.end()) return;
          settle(tiny);
          result.emplace_back(tiny);
        }
      },
      recipe);
  return result;
}

std::vector<Recipe> simpler_values(const Recipe& recipe) {
  return std::visit(
      []<class R>(const R& r) {
        std::vector<Recipe> result = with_simpler_fills(r);
        const auto defaults = texts_of(R{});
        for (const std::string_view key : {"kv_power", "seed"})
          if (defaults.contains(key) && texts_of(r).at(key) != defaults.at(key))
            result.emplace_back(with_default(r, key, defaults.at(key)));
        return result;
      },
      recipe);
}

std::vector<std::int64_t> places(const Recipe& recipe) {
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe))
    return attention->only.places(attention->topk);
  const auto* selection = std::get_if<TopKRecipe>(&recipe);
  return selection != nullptr ? selection->only.places(selection->scores)
                              : std::vector<std::int64_t>{};
}

Recipe with_places(const Recipe& recipe, const std::vector<std::int64_t>& kept) {
  return std::visit(
      [&]<class R>(R r) -> Recipe {
        if constexpr (std::is_same_v<R, SparseAttentionRecipe> || std::is_same_v<R, TopKRecipe>)
          r.only = EntrySet::of(kept);
        return r;
      },
      recipe);
}

}  // namespace mlacheck::detail
