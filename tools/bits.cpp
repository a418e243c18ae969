// mlacheck_bits: recomputes golden/bits.txt, the reference's answers as hashes, and says where they
// differ. It needs no library but OpenMP, so that every compiler, optimisation level and
// architecture can be held to the same bits.
//
//   mlacheck_bits FILE [--threads N]           checks the file's hashes
//   mlacheck_bits FILE --write [--threads N]   recomputes them, adds the tables that the file
//                                              lacks, and replaces it
//
// Exit codes: 0 all agree, 1 some differ, 2 usage, 3 unreadable file.

#include <omp.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "fixtures/case.h"
#include "fixtures/recipe.h"
#include "reference/arithmetic/instruction_set.h"
#include "tools/bit_tables.h"
#include "tools/stopwatch.h"

namespace {

using namespace mlacheck;

struct Options {
  std::string file;
  bool write = false;
  int threads = 0;  // 0: OpenMP's own choice
};

struct Entry {
  std::string hash;  // empty: not known yet
  std::string line;  // what follows the hash, in canonical form
  std::string shown;
  std::function<std::vector<Tensor>()> run;
  bool every_set = false;  // to be run under every InstructionSet
};

constexpr std::string_view kTable = "table ";

constexpr std::string_view kHead =
    "# XXH3-128 of everything that the reference returns for a recipe, here in canonical form, or\n"
    "# of a table (tools/bit_tables.cpp). Checked and rewritten by mlacheck_bits.\n";

Options parse_options(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--write") {
      options.write = true;
    } else if (argument == "--threads" && i + 1 < arguments.size()) {
      const std::string_view text = arguments[++i];
      const auto [rest, error] =
          std::from_chars(text.data(), text.data() + text.size(), options.threads);
      if (error != std::errc{} || rest != text.data() + text.size() || options.threads < 1)
        throw std::invalid_argument(fmt::format("--threads {}: expected a number above 0", text));
    } else if (options.file.empty() && !argument.starts_with("-")) {
      options.file = argument;
    } else {
      throw std::invalid_argument(fmt::format("unexpected argument '{}'", argument));
    }
  }
  if (options.file.empty())
    throw std::invalid_argument("usage: mlacheck_bits FILE [--threads N] [--write]");
  return options;
}

Entry entry_of(std::string hash, const BitTable& table) {
  const std::string line = fmt::format("{}{}", kTable, table.name);
  return {std::move(hash), line, line, [&table] { return table.make(table); }, table.every_set};
}

Entry entry_of(std::string hash, const Recipe& recipe) {
  return {std::move(hash), canonical(recipe), minimal(recipe),
          [recipe] { return run_reference(recipe); }};
}

// "<hash> <recipe>", "<hash> table <name>", or either without its hash.
Entry parse_entry(std::string_view line) {
  const bool bare = line.starts_with("mlacheck") || line.starts_with(kTable);
  if (!bare && line.find(' ') != 32)
    throw std::invalid_argument("expected a hash and a recipe or table");
  std::string hash(bare ? "" : line.substr(0, 32));
  if (!bare) line.remove_prefix(33);
  if (line.starts_with(kTable))
    return entry_of(std::move(hash), bit_table(line.substr(kTable.size())));
  return entry_of(std::move(hash), parse_recipe(line));
}

// The file's lines (# begins a comment) and, without a hash, the tables that it lacks.
std::vector<Entry> read_entries(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be opened", path));
  std::vector<Entry> entries;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    try {
      entries.push_back(parse_entry(line));
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
  if (entries.empty()) throw std::runtime_error(fmt::format("{}: holds no recipe", path));
  for (const BitTable& table : bit_tables()) {
    Entry entry = entry_of("", table);
    const bool listed = std::any_of(entries.begin(), entries.end(),
                                    [&](const Entry& other) { return other.line == entry.line; });
    if (!listed) entries.push_back(std::move(entry));
  }
  return entries;
}

bool check(const Entry& entry, std::string_view isa) {
  const std::string hash = hash_of(entry.run());
  fmt::print("{} {} {} {}{}\n", hash == entry.hash ? "PASS" : "FAIL",
             entry.hash.empty() ? "none" : entry.hash, hash, entry.shown, isa);
  return hash == entry.hash;
}

int check(const std::vector<Entry>& entries) {
  int failures = 0;
  const Stopwatch watch;
  for (const Entry& entry : entries) {
    bool pass = true;
    if (entry.every_set)
      for (const InstructionSet isa : instruction_sets()) {
        use_instruction_set(isa);
        pass &= check(entry, fmt::format(" {}", name_of(isa)));
      }
    else
      pass = check(entry, "");
    failures += pass ? 0 : 1;
  }
  fmt::print("{} of {} recipes and tables agree, {} threads, {:.1f} s\n",
             std::ssize(entries) - failures, entries.size(), omp_get_max_threads(),
             watch.seconds());
  return failures == 0 ? 0 : 1;
}

int write(const std::string& path, const std::vector<Entry>& entries) {
  std::string text(kHead);
  for (const Entry& entry : entries)
    text += fmt::format("{} {}\n", hash_of(entry.run()), entry.line);
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be written", path));
  fmt::print("{}: {} recipes and tables written\n", path, entries.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse_options({argv + 1, argv + argc});
    if (options.threads > 0) omp_set_num_threads(options.threads);
    const std::vector<Entry> entries = read_entries(options.file);
    return options.write ? write(options.file, entries) : check(entries);
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "mlacheck_bits: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "mlacheck_bits: {}\n", error.what());
    return 3;
  }
}
