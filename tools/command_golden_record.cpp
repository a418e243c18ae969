#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/golden_file.h"
#include "fixtures/regular_file.h"
#include "tools/commands.h"
#include "tools/device_record_origin.h"
#include "tools/device_record_run.h"
#include "tools/golden_replacement.h"
#include "tools/reference_library.h"

namespace mlacheck {
namespace {

struct RecordOptions {
  std::string library;
  std::filesystem::path recipes;
  std::filesystem::path out;
  bool emulated = false;
};

std::vector<RecordRequest> read_requests(const std::filesystem::path& path) {
  require_no_special_file(path);
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be read", path.string()));
  try {
    std::vector<RecordRequest> requests = parse_record_requests(text);
    if (requests.empty()) throw std::invalid_argument("holds no recipe");
    return requests;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", path.string(), error.what()));
  }
}

// Records are written in place of older ones alone: of the same recipes, by a library of the same
// name on the same kind of GPU.
void require_older(const std::filesystem::path& path, const std::vector<RecordRequest>& requests,
                   const RecordOrigin& origin) {
  const std::optional<Golden> found =
      require_same_golden(path, {{"kind", std::string(kDeviceRecordsKind)}});
  if (!found) return;
  const DeviceRecords older = read_device_records(*found);
  const auto refuse = [&](const std::string& what) {
    throw Hdf5Error(
        path.string(), "",
        fmt::format("holds {} records, {}: not replaced; remove it, or name another file",
                    older.records.size(), what));
  };
  if (!std::ranges::equal(older.records, requests, {}, &DeviceRecord::request))
    refuse(fmt::format("of other recipes than the {} here", requests.size()));
  if (older.origin.gpu != origin.gpu || older.origin.library != origin.library)
    refuse(fmt::format("of '{}' on {}, not of '{}' on {}", older.origin.library, older.origin.gpu,
                       origin.library, origin.gpu));
}

int record(const RecordOptions& options) {
  const std::vector<RecordRequest> requests = read_requests(options.recipes);
  require_golden_path(options.out);
  const KernelLibrary library = load_library(options.library);
  if (is_on_device(library) && options.emulated)
    throw std::invalid_argument(fmt::format(
        "{} wants device memory: no --emulated for what a GPU returns", options.library));
  if (!is_on_device(library) && !options.emulated)
    throw std::invalid_argument(fmt::format(
        "{} runs on host memory, and a device record is what a GPU returned; --emulated "
        "records it all the same",
        options.library));
  require_older(options.out, requests, origin_of(library));
  std::size_t started = 0;
  const DeviceRecords records =
      record_requests(requests, library, [&](const RecordRequest& request) {
        fmt::print("[{}/{}] {} {}\n", ++started, requests.size(), name_of(request.mode),
                   minimal(request.recipe));
        std::fflush(stdout);
      });
  const Golden golden = make_records_golden(records);
  write_golden(options.out, golden);
  std::int64_t outputs = 0;
  for (const DeviceRecord& one : records.records) outputs += one.outputs();
  fmt::print("{}: {} records, {} outputs of {}, {} bytes, content {}\n", options.out.string(),
             records.records.size(), outputs, records.origin.gpu,
             std::filesystem::file_size(options.out), golden_digest(golden).substr(0, 16));
  return kExitPass;
}

}  // namespace

void add_golden_record(CLI::App& golden, Action& action) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* command =
      golden.add_subcommand("record",
                            "Run a kernel library on a GPU and keep what it returns, for "
                            "the emulator to be held to");
  command->add_option("--kernel", options->library, "Kernel library (.so) on device memory")
      ->required();
  command
      ->add_option("--recipes", options->recipes,
                   "File of lines 'MODE RECIPE', MODE being default or batch_invariant")
      ->required();
  command->add_option("--out", options->out, "The file of records to write")->required();
  command->add_flag("--emulated", options->emulated, "Take a library on host memory instead");
  command->callback([options, &action] { action = [options] { return record(*options); }; });
}

}  // namespace mlacheck
