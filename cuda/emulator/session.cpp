#include "cuda/emulator/session.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <stdexcept>

#include "cuda/emulator/call_site_log.h"
#include "cuda/emulator/group.h"
#include "cuda/emulator/primitives.h"

namespace mlacheck::emulator {
namespace {

#if defined(MLACHECK_ADDRESS_SANITIZER)
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif

// The running host thread's, kept for the next launch.
Group& group_for(std::uint32_t blocks, std::uint32_t warps, std::size_t stack_bytes) {
  static thread_local std::unique_ptr<Group> group;
  if (group == nullptr || !group->fits(blocks, warps, stack_bytes)) {
    group.reset();
    group = std::make_unique<Group>(blocks, warps, stack_bytes);
  }
  return *group;
}

// The order in which groups of blocks run, by the seed: group number(i) is the i-th. No kernel may
// rely on one.
class GroupOrder {
 public:
  GroupOrder(std::uint64_t seed, std::uint64_t groups)
      : groups_(groups), first_(seed % groups), step_(seed / groups % groups | 1) {
    while (std::gcd(step_, groups) != 1) ++step_;
  }
  std::uint64_t number(std::uint64_t i) const { return (first_ + i * step_) % groups_; }

 private:
  std::uint64_t groups_, first_, step_;
};

void require_possible(const Launch& launch) {
  constexpr std::uint32_t kMostBlocksY = 65'535;
  constexpr std::uint32_t kMostShared = 227 * 1024;
  if (launch.threads == 0 || launch.threads % kWarpLanes != 0 ||
      launch.threads > kMaxWarps * kWarpLanes || launch.blocks_y > kMostBlocksY ||
      launch.blocks > 0x7fffffffu || launch.shared_bytes > kMostShared)
    throw std::invalid_argument(fmt::format(
        "{}: cannot launch {} by {} blocks of {} threads with {} bytes of shared memory: expected "
        "whole warps, at most {}, at most {} blocks along the second axis and {} bytes",
        launch.name, launch.blocks, launch.blocks_y, launch.threads, launch.shared_bytes, kMaxWarps,
        kMostBlocksY, kMostShared));
}

}  // namespace

std::uint32_t multiprocessors() {
  constexpr std::uint32_t kRtxPro6000 = 188;
  const char* text = std::getenv("MLACHECK_MULTIPROCESSORS");
  if (text == nullptr) return kRtxPro6000;
  std::uint32_t count = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, count);
  if (error != std::errc{} || rest != end || count == 0 || count > 65'535)
    throw std::runtime_error(
        fmt::format("MLACHECK_MULTIPROCESSORS: expected a number from 1 to 65535, got {}", text));
  return count;
}

Session::Session(SessionOptions options) : options_(std::move(options)) {
  if (options_.stack_bytes == 0) options_.stack_bytes = kStackBytes;
  if (options_.stack_bytes % 4096 != 0 || options_.resident_blocks == 0)
    throw std::invalid_argument(
        fmt::format("emulator: stacks of {} bytes, {} resident blocks: expected a multiple of "
                    "4096 and at least 1",
                    options_.stack_bytes, options_.resident_blocks));
  memory_.declare("zeros", zeros(), kMostZeros, Access::read);
  if (options_.list_call_sites) call_sites_ = std::make_unique<CallSiteLog>();
}

Session::~Session() = default;

void Session::declare_memory(const std::string& name, const void* data, std::uint64_t bytes,
                             Access access) {
  memory_.declare(name, data, bytes, access);
}

void Session::launch(const Launch& given) {
  Launch launch = given;
  const std::uint64_t blocks = std::uint64_t{launch.blocks} * launch.blocks_y;
  if (blocks == 0) return;
  require_possible(launch);
  launch.seed = options_.seed * 0x9e3779b97f4a7c15u + ++launches_;
  launch.memory = &memory_;
  launch.mutations = options_.mutations.empty() ? nullptr : &options_.mutations;
  launch.call_sites = call_sites_.get();
  memory_.begin_launch(launch.early);

  const std::uint32_t together = options_.resident_blocks;
  const auto groups = static_cast<std::int64_t>((blocks + together - 1) / together);
  const auto threads = static_cast<int>(std::min<std::int64_t>(
      groups, options_.host_threads > 0 ? options_.host_threads : omp_get_max_threads()));
  std::vector<BlockResult> results(blocks);
  std::exception_ptr failure;
  const GroupOrder order(launch.seed, static_cast<std::uint64_t>(groups));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t g = 0; g < groups; ++g) {
    try {
      const std::uint64_t first = order.number(static_cast<std::uint64_t>(g)) * together;
      const auto count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(together, blocks - first));
      Group& group = group_for(together, launch.threads / kWarpLanes, options_.stack_bytes);
      std::vector<BlockResult> done = group.run(launch, first, count);
      std::move(done.begin(), done.end(), results.begin() + static_cast<std::ptrdiff_t>(first));
    } catch (...) {
#pragma omp critical(mlacheck_emulator_failure)
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);

  std::vector<std::vector<GlobalRun>> runs;
  runs.reserve(results.size());
  std::vector<Report> reports;
  for (BlockResult& result : results) {
    runs.push_back(std::move(result.runs));
    std::move(result.reports.begin(), result.reports.end(), std::back_inserter(reports));
  }
  std::vector<Report> between = memory_.end_launch(launch, runs);
  std::move(between.begin(), between.end(), std::back_inserter(reports));
  if (reports.empty()) return;
  const std::string first = reports.front().text();
  for (Report& report : reports)
    if (reports_.size() < options_.most_reports) reports_.push_back(std::move(report));
  throw std::runtime_error(first);
}

std::vector<CallSite> Session::call_sites() const {
  if (call_sites_ == nullptr) return {};
  return {call_sites_->sites().begin(), call_sites_->sites().end()};
}

}  // namespace mlacheck::emulator
