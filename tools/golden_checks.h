#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "tools/report.h"

namespace mlacheck {

// The given files, and every golden file (is_golden_name) of the given directories, sorted. Throws
// std::runtime_error naming a folder without any.
std::vector<std::filesystem::path> golden_files(const std::vector<std::string>& paths);

struct GoldenCheckOptions {
  std::filesystem::path checkpoint;  // of the layers that were captured from one
  std::string digest;                // that the content must have, when not empty
  bool stored_oracle = false;        // ask the oracle again for what the golden keeps of it
  bool all_rows = false;             // replay every row of device records, bits alone
  std::span<const KernelLibrary> libraries = {};  // judged on the golden's attention, too
  const KernelLibrary* gpu = nullptr;  // held to device records beside the emulated kernels
};

// Every golden file of a folder against its manifest, then each as below. A file that the manifest
// has and the folder lacks, or the reverse, is an error of the report.
void check_golden_folder(const std::filesystem::path& folder, const GoldenCheckOptions& options,
                         Report& report);

// Recomputes what a golden file holds and adds to the report, for an operator's case or for each
// layer:
//   bits       the reference's outputs against the stored ones, bit by bit
//   intervals  the stored oracle/ datasets against recomputed ones, bit by bit, if asked for
//   oracle     the recomputed outputs against the fp64 oracle, stage by stage
//   recording  another implementation's stored outputs against the reference's (capture_compare.h)
//   engine     an inference engine's stored stages against the reference's (engine_compare.h)
//   kernels    each library's sparse_attention on the layer's own queries, cache and indices
// A file of device records (device_record.h) is replayed by the emulated kernels, bit by bit; with
// stored_oracle the replayed rows are put to the oracle, too.
// A file that cannot be read or lacks something is an error of the report, not a verdict.
void check_golden_file(const std::filesystem::path& path, const GoldenCheckOptions& options,
                       Report& report);

}  // namespace mlacheck
