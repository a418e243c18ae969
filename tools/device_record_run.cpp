#include "tools/device_record_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "cuda/plugin/kernel_worker.h"
#include "fixtures/case.h"
#include "tools/device_record_origin.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_contract.h"
#include "tools/stopwatch.h"

namespace mlacheck {

namespace {

// Products of q . k and of p . v, as the kernels' tiles make them: the emulator does about 10^9 in a
// second.
constexpr std::int64_t kCheapProducts = 150'000'000;  // all rows
constexpr std::int64_t kSomeProducts = 20'000'000;    // of some rows

std::int64_t products_of_row(const SparseAttentionRecipe& r) {
  const auto tiles = [](std::int64_t n) { return std::max<std::int64_t>((n + 15) / 16 * 16, 16); };
  return tiles(r.heads) * tiles(r.topk) * (r.qk_dim + r.v_dim);
}

std::unique_ptr<KernelCall> call_of(const SparseAttentionCase& c, RecordMode mode) {
  return mode == RecordMode::batch_invariant ? make_batch_invariant_call(c) : make_call(c);
}

DeviceOutputs outputs_of(const KernelCall& call) {
  return {call.tensor(CallTensor::out), call.tensor(CallTensor::lse),
          call.tensor(CallTensor::max_logit)};
}

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
  const SparseAttentionCase c(request.recipe);
  std::string reasons;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != MLACHECK_SPARSE_ATTENTION) continue;
    const std::unique_ptr<KernelCall> call = call_of(c, request.mode);
    const CallOutcome outcome = run_in_worker(*call, library.target(kernel->name));
    const std::string flaw = flaw_of(*call, outcome);
    if (flaw.empty())
      return make_device_record(request, kernel->name, hash_of(c.inputs), outputs_of(*call));
    reasons += fmt::format("\n  {}: {}", kernel->name, flaw);
    if (outcome.kind != CallOutcome::Kind::refused) break;
  }
  throw std::runtime_error(fmt::format("{}: no kernel of {} has run it{}", shown(request),
                                       library.path().string(), reasons));
}

// Leaves the given rows, ascending, of the case; what they point to stays where it is.
void keep_rows(SparseAttentionCase& c, std::span<const std::int64_t> rows) {
  for (Tensor& tensor : c.inputs) {
    if (tensor.name != "q" && tensor.name != "indices" && tensor.name != "topk_length") continue;
    const std::size_t row_bytes = tensor.bytes.size() / static_cast<std::size_t>(c.problem.tokens);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::memmove(tensor.bytes.data() + i * row_bytes,
                   tensor.bytes.data() + static_cast<std::size_t>(rows[i]) * row_bytes, row_bytes);
  }
  c.problem.tokens = std::ssize(rows);
}

struct Replay {
  std::vector<CheckResult> failures;
  std::string error;
  std::int64_t rows = 0;
};

Replay replay_one(const RecordsCheck& check, const DeviceRecord& record,
                  const KernelLibrary& library) {
  const Stopwatch stopwatch;
  const RecordRequest& request = record.request;
  SparseAttentionCase c(request.recipe);
  const std::string input_hash = hash_of(c.inputs);
  if (input_hash != record.input_hash)
    throw std::runtime_error(
        fmt::format("was made from inputs {}, the recipe makes {}", record.input_hash, input_hash));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(request.recipe.tokens));
  std::iota(rows.begin(), rows.end(), 0);
  if (!is_on_device(library) && !check.all_rows) rows = replayed_rows(request);
  if (std::ssize(rows) < request.recipe.tokens) keep_rows(c, rows);

  const mlacheck_kernel& kernel = library.kernel(record.kernel);
  const std::unique_ptr<KernelCall> call = call_of(c, request.mode);
  const CallOutcome outcome = run_in_worker(*call, library.target(record.kernel));
  if (outcome.kind == CallOutcome::Kind::refused)
    throw std::runtime_error(fmt::format("{} refuses it: {}", record.kernel, outcome.detail));
  Replay replay;
  replay.rows = std::ssize(rows);
  const auto add = [&](Status status, const std::string& detail) {
    replay.failures.push_back({fmt::format("{} on {}: {}", check.name,
                                           library.path().filename().string(), shown(request)),
                               status, detail, check.repro, stopwatch.seconds()});
  };
  using Kind = CallOutcome::Kind;
  if (outcome.kind == Kind::crashed || outcome.kind == Kind::timed_out) {
    add(Status::crashed, outcome.detail);
    return replay;
  }
  if (const std::string flaw = flaw_of(*call, outcome); !flaw.empty()) {
    add(Status::fail, flaw);
    return replay;
  }
  const Finding finding = compare_with_record(record, rows, outputs_of(*call));
  if (finding.status != Status::pass) add(finding.status, finding.detail);
  if (!check.judge) return replay;
  // Logits of 1e4 and more have bounds too wide to judge by; their bits were compared.
  for (const Finding& one : judge(c.problem, contract_of(kernel), attention_result(*call)))
    if (one.status > Status::mistrusted) add(one.status, to_string(one));
  return replay;
}

}  // namespace

std::vector<std::int64_t> replayed_rows(const RecordRequest& request) {
  const std::int64_t tokens = request.recipe.tokens, row = products_of_row(request.recipe);
  std::int64_t count = tokens;
  if (tokens > 0 && row > kCheapProducts / tokens) {
    if (request.mode != RecordMode::batch_invariant)
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
  // At once, because most of a call on a GPU is to start a process there.
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
    rows += records.records[i].request.recipe.tokens;
    outputs += records.records[i].outputs();
    passed &= replays[i].failures.empty() && replays[i].error.empty();
    if (!replays[i].error.empty()) report.error(replays[i].error);
    for (CheckResult& failure : replays[i].failures) report.add(std::move(failure));
  }
  if (!passed) return;
  report.add({fmt::format("{} on {}: {} records, {} of {} rows replayed", name,
                          library.path().filename().string(), count, replayed, rows),
              Status::pass,
              fmt::format("{} outputs of {}, driver {}, {}", outputs, records.origin.gpu,
                          records.origin.driver, records.origin.compiler),
              "", stopwatch.seconds()});
}

}  // namespace mlacheck
