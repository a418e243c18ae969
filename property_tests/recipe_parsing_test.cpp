#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "property_tests/recipe_generator.h"

namespace mlacheck {
namespace {

// parse_recipe of anything: refused by a message, or a recipe that both of its forms mean.
void check_parsing(const std::string& line) {
  Recipe recipe;
  try {
    recipe = parse_recipe(line);
  } catch (const std::invalid_argument& refusal) {
    RC_ASSERT(std::string_view(refusal.what()).starts_with("recipe: "));
    return;
  }
  RC_ASSERT(parse_recipe(canonical(recipe)) == recipe);
  RC_ASSERT(parse_recipe(minimal(recipe)) == recipe);
}

// In place of a key, a value or a byte: what parsers stumble over.
const std::vector<std::string> kNasty = {"",
                                         " ",
                                         "=",
                                         "==",
                                         "\t",
                                         "\n",
                                         "\r",
                                         std::string(1, '\0'),
                                         "\xff",
                                         "\xc3\xa9",
                                         "-",
                                         "-0",
                                         "+1",
                                         "0x1",
                                         "01",
                                         "1e3",
                                         "1e99",
                                         "-1e-99",
                                         "nan",
                                         "-nan",
                                         "inf",
                                         "1.",
                                         ".5",
                                         "99999999999999999999",
                                         "2147483648",
                                         "-9223372036854775808",
                                         "9223372036854775807",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "0-",
                                         "-0-0",
                                         "0-0,0-0",
                                         "1,2,3-9",
                                         "9-0",
                                         ",",
                                         "all",
                                         "on",
                                         "op=top_k",
                                         "k=1",
                                         "only=0",
                                         std::string(300, '9'),
                                         std::string(300, '=')};

rc::Gen<std::string> valid_line() {
  return rc::gen::exec([] {
    const Operator op = *rc::gen::elementOf(kOperators);
    const Recipe recipe = draw_recipe(op, *rc::gen::arbitrary<std::uint64_t>(), 0);
    return *rc::gen::arbitrary<bool>() ? canonical(recipe) : minimal(recipe);
  });
}

// One change somewhere: a byte flipped, a part left out or repeated, something nasty put in or in
// place of a part.
std::string mutated(std::string line) {
  const auto place = [&] { return *rc::gen::inRange<std::size_t>(0, line.size() + 1); };
  const std::size_t at = place();
  const std::size_t length = *rc::gen::inRange<std::size_t>(0, 12);
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      if (at < line.size()) line[at] = *rc::gen::arbitrary<char>();
      return line;
    case 1:
      return line.erase(at, length);
    case 2:
      return line.insert(place(), line.substr(at, length));
    case 3:
      return line.insert(at, *rc::gen::elementOf(kNasty));
    default: {  // a whole value
      const std::size_t equals = line.find('=', at);
      if (equals == std::string::npos) return line;
      const std::size_t end = std::min(line.find(' ', equals), line.size());
      return line.replace(equals + 1, end - equals - 1, *rc::gen::elementOf(kNasty));
    }
  }
}

RC_GTEST_PROP(RecipeParsing, TakesOrRefusesAnyBytes, (const std::string& bytes)) {
  check_parsing(bytes);
  check_parsing("mlacheck1 " + bytes);
  check_parsing("mlacheck1 op=sparse_attention " + bytes);
}

RC_GTEST_PROP(RecipeParsing, TakesOrRefusesAnyChangeOfAValidLine, ()) {
  for (int i = 0; i < 20; ++i) {
    std::string line = *valid_line();
    const int changes = *rc::gen::inRange(1, 5);
    for (int change = 0; change < changes; ++change) line = mutated(std::move(line));
    check_parsing(line);
  }
}

RC_GTEST_PROP(RecipeParsing, ReadsBackBothForms, (std::uint64_t seed)) {
  for (const Operator op : kOperators)
    for (std::uint64_t number = 0; number < 4; ++number) {
      const Recipe recipe = draw_recipe(op, seed, number);
      RC_ASSERT(parse_recipe(canonical(recipe)) == recipe);
      RC_ASSERT(parse_recipe(minimal(recipe)) == recipe);
      RC_ASSERT(minimal(parse_recipe(canonical(recipe))) == minimal(recipe));
    }
}

TEST(RecipeParsing, RefusesALineOfAMillionWords) {
  std::string line = "mlacheck1 op=top_k";
  for (int i = 0; i < 1'000'000; ++i) line += " k=1";
  EXPECT_THROW(parse_recipe(line), std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
