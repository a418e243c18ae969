#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_call.h"
#include "cuda/plugin/kernel_library.h"
#include "fixtures/device_record.h"
#include "tools/report.h"

namespace mlacheck {

// Makes device records with a kernel library, and holds a library to them.

// The rows that the emulator computes again: all where they are cheap; else, in the batch-invariant
// mode, in which a row has the same bits alone, evenly spread ones up to the last, as many as are
// cheap. Throws std::invalid_argument for a request that is too much and not batch-invariant.
std::vector<std::int64_t> replayed_rows(const RecordRequest& request);

// Runs every request on the first kernel of the library that takes it, several at a time; `before`
// is told of each before it runs, one call at a time. Throws std::runtime_error with the recipe and
// what happened when a call does not end well.
DeviceRecords record_requests(const std::vector<RecordRequest>& requests,
                              const KernelLibrary& library,
                              const std::function<void(const RecordRequest&)>& before);

struct RecordsCheck {
  std::string name;       // of the golden
  std::string repro;      // command that repeats the check
  bool judge = false;     // the outputs against the oracle, by the kernel's contract, too
  bool all_rows = false;  // on the host too, however long it takes
};

// Adds to the report how the library does on a golden's records: a PASS for all of them, or each
// that differs; a record that cannot be replayed (its recipe makes other inputs, the library lacks
// its kernel) is an error. On a GPU all rows, on the host replayed_rows() of them unless all are
// asked for.
void replay_records(const RecordsCheck& check, const DeviceRecords& records,
                    const KernelLibrary& library, Report& report);

}  // namespace mlacheck
