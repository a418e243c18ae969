// mlacheck_bits: recomputes golden/bits.txt, the reference's answers as hashes, and says where they
// differ. It needs no library but OpenMP, so that every compiler, optimisation level and
// architecture can be held to the same bits.
//
//   mlacheck_bits FILE [--threads N]            0: all agree, 1: some differ, 2: usage, 3:
//   unreadable file mlacheck_bits FILE --write [--threads N]    recomputes the hashes of the file's
//   recipes and replaces the file

#include <omp.h>

#include <charconv>
#include <chrono>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "fixtures/case.h"
#include "fixtures/recipe.h"

namespace {

using namespace mlacheck;

struct Options {
  std::string file;
  bool write = false;
  int threads = 0;  // 0: OpenMP's own choice
};

struct Entry {
  std::string hash;
  Recipe recipe;
};

constexpr std::string_view kHead =
    "# XXH3-128 of everything that the reference returns, and the recipe in canonical form.\n"
    "# Checked and rewritten by mlacheck_bits.\n";

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

// Lines "<hash> <recipe>"; # begins a comment. A recipe without a hash is one to be written.
std::vector<Entry> read_entries(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be opened", path));
  std::vector<Entry> entries;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const bool bare = line.starts_with("mlacheck");
    const std::size_t space = bare ? 0 : line.find(' ');
    if (space == std::string::npos || (!bare && space != 32))
      throw std::runtime_error(fmt::format("{}:{}: expected a hash and a recipe", path, number));
    try {
      entries.push_back(
          {line.substr(0, space), parse_recipe(std::string_view(line).substr(space))});
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
  if (entries.empty()) throw std::runtime_error(fmt::format("{}: holds no recipe", path));
  return entries;
}

int check(const std::vector<Entry>& entries) {
  int failures = 0;
  const auto start = std::chrono::steady_clock::now();
  for (const Entry& entry : entries) {
    const std::string hash = hash_of(run_reference(entry.recipe));
    const bool pass = hash == entry.hash;
    failures += pass ? 0 : 1;
    fmt::print("{} {} {} {}\n", pass ? "PASS" : "FAIL", entry.hash, hash, minimal(entry.recipe));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{} of {} recipes agree, {} threads, {:.1f} s\n", std::ssize(entries) - failures,
             entries.size(), omp_get_max_threads(), elapsed.count());
  return failures == 0 ? 0 : 1;
}

int write(const std::string& path, const std::vector<Entry>& entries) {
  std::string text(kHead);
  for (const Entry& entry : entries)
    text += fmt::format("{} {}\n", hash_of(run_reference(entry.recipe)), canonical(entry.recipe));
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be written", path));
  fmt::print("{}: {} recipes written\n", path, entries.size());
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
