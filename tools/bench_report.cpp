#include "tools/bench_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/report_files.h"

namespace mlacheck {

namespace {

constexpr double kMicro = 1e6, kTera = 1e-12;

bool was_timed(const BenchResult& result) { return result.times.graph_calls > 0; }

nlohmann::json to_json(const BenchResult& r) {
  nlohmann::json json = {{"kernel", r.kernel},
                         {"tokens", r.timed.tokens},
                         {"batch_invariant", r.timed.batch_invariant},
                         {"status", name_of(r.status)},
                         {"detail", r.detail},
                         {"repro", r.repro}};
  if (!was_timed(r)) return json;
  json["graph_us"] = r.times.in_graph * kMicro;
  json["single_us"] = r.times.single * kMicro;
  json["judged_elements"] = r.judged;
  json["graph_calls"] = r.times.graph_calls;
  json["inputs"] = r.timed.calls;
  json["workspace_bytes"] = r.workspace_bytes;
  json["bytes"] = r.work.bytes();
  json["flops"] = r.work.flops;
  if (!r.floor) return json;
  json["floor_us"] = r.floor->seconds * kMicro;
  json["bound"] = r.floor->bound;
  return json;
}

}  // namespace

BenchReport::BenchReport(GpuInfo gpu, std::optional<std::filesystem::path> json)
    : gpu_(std::move(gpu)), json_(std::move(json)) {
  if (json_) require_writable(*json_, kJsonReport);
  print_out("{}, driver {}, L2 cache {:.0f} MB\n", gpu_.name, gpu_.driver,
            static_cast<double>(gpu_.l2_bytes) * 1e-6);
}

void BenchReport::begin(const std::string& recipe, const RateMeter::Answer& rates) {
  groups_.push_back({recipe, rates, {}});
  print_out("\n{}\n", recipe);
  if (rates.refusal.empty())
    print_out("here and now: reads at {:.2f} TB/s, mma.sync at {:.0f} TFLOP/s\n",
              rates.rates.bytes_per_second * kTera, rates.rates.flops_per_second * kTera);
  else
    print_out("no floor: {}\n", rates.refusal);
  print_out("{:>8} {:>10} {:>10} {:>10} {:>8} {:>6} {:>6} {:>8} {:>9}  {:10} {}\n", "tokens",
            "graph us", "single us", "floor us", "of floor", "bound", "TB/s", "TFLOP/s", "work MiB",
            "verdict", "kernel");
  std::fflush(stdout);
}

void BenchReport::add(const BenchResult& result) {
  BenchResult& r = groups_.back().results.emplace_back(result);
  for (std::string* text : {&r.kernel, &r.repro, &r.detail}) *text = printable(*text);
  print_out("{:>8} ", r.timed.tokens);
  if (was_timed(r)) {
    const double seconds = r.times.in_graph;
    print_out("{:>10.1f} {:>10.1f} ", seconds * kMicro, r.times.single * kMicro);
    if (r.floor)
      print_out("{:>10.1f} {:>6.0f} % {:>6} ", r.floor->seconds * kMicro,
                100 * r.floor->seconds / seconds, r.floor->bound);
    else
      print_out("{:>10} {:>8} {:>6} ", "-", "-", "-");
    print_out("{:>6.2f} {:>8.1f} {:>9.1f}", r.work.bytes() / seconds * kTera,
              r.work.flops / seconds * kTera, static_cast<double>(r.workspace_bytes) * 0x1p-20);
  } else {
    print_out("{:>10} {:>10} {:>10} {:>8} {:>6} {:>6} {:>8} {:>9}", "-", "-", "-", "-", "-", "-",
              "-", "-");
  }
  print_out("  {:10} {}{}\n", name_of(r.status), r.kernel,
            was_timed(r) ? fmt::format(" ({} elements judged)", r.judged) : "");
  if (r.status != Status::pass) print_out("         {}\n         repeat: {}\n", r.detail, r.repro);
  std::fflush(stdout);
}

void BenchReport::add_end(CheckResult end) {
  for (std::string* text : {&end.name, &end.repro, &end.detail}) *text = printable(*text);
  print_out("\n{} {}: {}\n         repeat: {}\n", name_of(end.status), end.name, end.detail,
            end.repro);
  std::fflush(stdout);
  ends_.push_back(std::move(end));
}

int BenchReport::finish() const {
  std::vector<Status> statuses;
  nlohmann::json recipes = nlohmann::json::array();
  for (const Group& group : groups_) {
    nlohmann::json results = nlohmann::json::array();
    for (const BenchResult& result : group.results) {
      statuses.push_back(result.status);
      results.push_back(to_json(result));
    }
    nlohmann::json json = {{"recipe", group.recipe}, {"results", results}};
    if (group.rates.refusal.empty()) {
      json["bytes_per_second"] = group.rates.rates.bytes_per_second;
      json["flops_per_second"] = group.rates.rates.flops_per_second;
    }
    recipes.push_back(json);
  }
  nlohmann::json ends = nlohmann::json::array();
  for (const CheckResult& end : ends_) {
    statuses.push_back(end.status);
    ends.push_back({{"library", end.name},
                    {"status", name_of(end.status)},
                    {"detail", end.detail},
                    {"repro", end.repro}});
  }
  const int code = exit_code(statuses);
  try {
    if (json_)
      write_json(*json_, {{"title", "bench"},
                          {"gpu", gpu_.name},
                          {"driver", gpu_.driver},
                          {"recipes", recipes},
                          {"ends", ends}});
  } catch (const std::runtime_error& failure) {
    print_error(failure.what());
    return with_error(code);
  }
  return code;
}

}  // namespace mlacheck
