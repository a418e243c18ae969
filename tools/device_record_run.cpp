#include "tools/device_record_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "cuda/plugin/kernel_worker.h"
#include "tools/device_record_origin.h"
#include "tools/interruption.h"
#include "tools/judgements.h"
#include "tools/recorded_case.h"
#include "tools/stopwatch.h"
#include "tools/used_process.h"

namespace mlacheck {

namespace {

constexpr std::int64_t kCheapProducts = 150'000'000;  // all rows
constexpr std::int64_t kSomeProducts = 20'000'000;    // of some rows

std::string shown(const RecordRequest& request) {
  return fmt::format("{} {}", name_of(request.mode), minimal(request.recipe));
}

// Why a call did not end well; empty when it did.
std::string flaw_of(const KernelCall& call, const CallOutcome& outcome) {
  if (outcome.kind != CallOutcome::Kind::done) return outcome.detail;
  const std::vector<std::string> trespasses = call.trespasses();
  return trespasses.empty() ? "" : trespasses[0];
}

DeviceRecord record_one(const RecordRequest& request, const KernelLibrary& library) {
  const RecordedCase c(request);
  std::string reasons;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != c.op()) continue;
    const std::unique_ptr<KernelCall> call = c.make_call();
    const CallOutcome outcome = run_in_worker(*call, library.target(kernel->name));
    const std::string flaw = flaw_of(*call, outcome);
    if (flaw.empty())
      return make_device_record(request, kernel->name, c.input_hash(), c.outputs_of(*call));
    reasons += fmt::format("\n  {}: {}", kernel->name, flaw);
    if (outcome.kind != CallOutcome::Kind::refused) break;
  }
  throw std::runtime_error(fmt::format("{}: no kernel of {} has run it{}", shown(request),
                                       library.path().string(), reasons));
}

struct Replay {
  std::vector<CheckResult> failures;
  bool after_others = false;  // made in a used process
  std::string error;
  std::int64_t rows = 0;
};

Replay replay_once(const RecordsCheck& check, const DeviceRecord& record,
                   const KernelLibrary& library) {
  const Stopwatch stopwatch;
  const RecordRequest& request = record.request;
  RecordedCase c(request);
  if (c.input_hash() != record.input_hash)
    throw std::runtime_error(fmt::format("was made from inputs {}, the recipe makes {}",
                                         record.input_hash, c.input_hash()));
  const std::int64_t tokens = record_layout(request.recipe).rows;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(tokens));
  std::iota(rows.begin(), rows.end(), 0);
  if (!is_on_device(library) && !check.all_rows) rows = replayed_rows(request);
  if (std::ssize(rows) < tokens) c.keep_rows(rows);

  const mlacheck_kernel& kernel = library.kernel(record.kernel);
  const std::unique_ptr<KernelCall> call = c.make_call();
  const CallOutcome outcome = run_in_worker(*call, library.target(record.kernel));
  if (outcome.kind == CallOutcome::Kind::refused)
    throw std::runtime_error(fmt::format("{} refuses it: {}", record.kernel, outcome.detail));
  Replay replay;
  replay.rows = std::ssize(rows);
  replay.after_others = outcome.calls_before > 0;
  const auto add = [&](Status status, const std::string& detail) {
    replay.failures.push_back({fmt::format("{} on {}: {}", check.name,
                                           library.path().filename().string(), shown(request)),
                               status, detail, check.repro, stopwatch.seconds()});
  };
  if (outcome.kind != CallOutcome::Kind::done) {
    add(status_of(outcome.kind), outcome.detail);
    return replay;
  }
  if (const std::string flaw = flaw_of(*call, outcome); !flaw.empty()) {
    add(Status::fail, flaw);
    return replay;
  }
  const Finding finding = compare_with_record(record, rows, c.outputs_of(*call));
  if (finding.status != Status::pass) add(finding.status, finding.detail);
  if (!check.judge) return replay;
  // Logits of 1e4 and more have bounds too wide to judge by; their bits were compared.
  for (const Finding& one : c.judge(*call, kernel))
    if (is_wrong(one.status)) add(one.status, to_string(one));
  return replay;
}

Replay replay_one(const RecordsCheck& check, const DeviceRecord& record,
                  const KernelLibrary& library) {
  Replay used = replay_once(check, record, library);
  if (!used.after_others || !goes_wrong(used.failures)) return used;
  Replay fresh = replay_once(check, record, library.afresh());
  fresh.failures = told_apart(std::move(used.failures), std::move(fresh.failures));
  return fresh;
}

}  // namespace

std::vector<std::int64_t> replayed_rows(const RecordRequest& request) {
  const std::int64_t tokens = record_layout(request.recipe).rows;
  const std::int64_t row = emulated_products_of_row(request.recipe);
  std::int64_t count = tokens;
  if (tokens > 0 && row > kCheapProducts / tokens) {
    if (!has_independent_rows(request))
      throw std::invalid_argument(fmt::format(
          "{}: is {} products of {} at most to replay; in the mode batch_invariant some "
          "rows would do",
          shown(request), row * tokens, kCheapProducts));
    count =
        std::clamp<std::int64_t>(kSomeProducts / row, std::min<std::int64_t>(2, tokens), tokens);
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 1; i <= count; ++i) rows.push_back(i * tokens / count - 1);
  return rows;
}

DeviceRecords record_requests(const std::vector<RecordRequest>& requests,
                              const KernelLibrary& library,
                              const std::function<void(const RecordRequest&)>& before) {
  for (const RecordRequest& request : requests) replayed_rows(request);
  DeviceRecords records{origin_of(library), std::vector<DeviceRecord>(requests.size())};
  std::string error;
  // At once: on a GPU most of it is to start the processes there.
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < requests.size(); ++i) {
    bool go_on = true;
#pragma omp critical
    {
      go_on = error.empty();
      if (go_on) before(requests[i]);
    }
    if (!go_on) continue;
    try {
      records.records[i] = record_one(requests[i], library);
    } catch (const std::exception& failure) {
#pragma omp critical
      if (error.empty()) error = failure.what();
    }
  }
  if (!error.empty()) throw std::runtime_error(error);
  return records;
}

void replay_records(const RecordsCheck& check, const DeviceRecords& records,
                    const KernelLibrary& library, Report& report) {
  const std::string& name = check.name;
  const Stopwatch stopwatch;
  const std::size_t count = records.records.size();
  std::vector<Replay> replays(count);
  std::size_t done = 0;
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < count; ++i) {
    if (Interruption::requested()) continue;
    const DeviceRecord& record = records.records[i];
#pragma omp critical
    report.progress(done++, count, fmt::format("{} {}", name, shown(record.request)));
    try {
      replays[i] = replay_one(check, record, library);
    } catch (const std::exception& error) {
      replays[i].error =
          fmt::format("{}: record {}, {}: {}", name, i, shown(record.request), error.what());
    }
  }
  std::int64_t replayed = 0, rows = 0, outputs = 0;
  bool passed = true;
  for (std::size_t i = 0; i < count; ++i) {
    replayed += replays[i].rows;
    rows += record_layout(records.records[i].request.recipe).rows;
    outputs += records.records[i].outputs();
    passed &= replays[i].failures.empty() && replays[i].error.empty();
    if (!replays[i].error.empty()) report.error(replays[i].error);
    for (CheckResult& failure : replays[i].failures) report.add(std::move(failure));
  }
  if (!passed) return;
  // What holds no output shows nothing.
  report.add({fmt::format("{} on {}: {} records, {} of {} rows replayed", name,
                          library.path().filename().string(), count, replayed, rows),
              outputs > 0 && replayed > 0 ? Status::pass : Status::mistrusted,
              fmt::format("{} outputs of {}, driver {}, {}", outputs, records.origin.gpu,
                          records.origin.driver, records.origin.compiler),
              "", stopwatch.seconds()});
}

}  // namespace mlacheck
