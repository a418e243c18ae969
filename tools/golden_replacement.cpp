#include "tools/golden_replacement.h"

#include <fmt/format.h>

#include <string_view>
#include <variant>

namespace mlacheck {

namespace {

// "sha256.q", "layer3.sha256.q", "input_hash"; not "weights_sha256.q_a_proj", which tells models
// apart.
bool is_of_results(std::string_view name) {
  return name.starts_with("sha256.") || name.find(".sha256.") != std::string_view::npos ||
         name == "input_hash";
}

}  // namespace

std::string text_of(const Attribute& attribute) {
  struct Text {
    std::string operator()(std::int64_t x) const { return fmt::format("{}", x); }
    std::string operator()(double x) const { return fmt::format("{}", x); }
    std::string operator()(const std::string& x) const { return x; }
  };
  return std::visit(Text{}, attribute);
}

std::optional<Golden> require_same_golden(const std::filesystem::path& path,
                                          const AttributeMap& attributes) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto refuse = [&](const std::string& reason) {
    throw Hdf5Error(path.string(), "",
                    fmt::format("{}: not replaced; remove it, or name another file", reason));
  };
  Golden older;
  try {
    older = read_golden(path);
  } catch (const Hdf5Error& error) {
    refuse(fmt::format("holds no golden that can be read ({}{}{})", error.object(),
                       error.object().empty() ? "" : ": ", error.reason()));
  }
  constexpr std::size_t kShown = 300;  // a whole config_json says less than its name
  const auto require = [&](const std::string& name, const Attribute& value) {
    const auto found = older.attributes.find(name);
    if (found != older.attributes.end() && found->second == value) return;
    const std::string has = found == older.attributes.end() ? "none" : text_of(found->second);
    const std::string wanted = text_of(value);
    refuse(has.size() + wanted.size() > kShown
               ? fmt::format("holds another golden, of another {}", name)
               : fmt::format("holds another golden: {} is '{}', not '{}'", name, has, wanted));
  };
  // What says most first.
  for (const char* name : {"kind", "recipe", "source"})
    if (const auto found = attributes.find(name); found != attributes.end())
      require(name, found->second);
  for (const auto& [name, value] : attributes)
    if (!is_of_results(name)) require(name, value);
  return older;
}

}  // namespace mlacheck
