#include "cuda/plugin/kernel_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "cuda/plugin/library_description.h"

namespace mlacheck {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Three calls of two positions each, on one block table.
struct ThreeCalls {
  ThreeCalls() { std::iota(positions.begin(), positions.end(), 0); }

  std::unique_ptr<KernelCall> make(std::int32_t calls = 3) const {
    mlacheck_problem problem = {};
    problem.op = MLACHECK_MAP_SLOTS;
    problem.u.map_slots.count = 2;
    const KernelCall::Input inputs[] = {
        {CallTensor::positions, std::as_bytes(std::span(positions))},
        {CallTensor::block_table, std::as_bytes(std::span(table))}};
    const KernelCall::Output outputs[] = {{CallTensor::slots, positions.size() * 4}};
    return std::make_unique<KernelCall>(problem, inputs, outputs, CallSeries{calls, false});
  }

  std::vector<std::int32_t> positions = std::vector<std::int32_t>(6);
  std::vector<std::int32_t> table = {7, 8, 9};
};

// Memory where it is touched.
class AddressSpace {
 public:
  explicit AddressSpace(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~AddressSpace() { munmap(data_, bytes_); }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::span<const std::byte> bytes() const { return {data(), bytes_}; }

 private:
  std::size_t bytes_;
  void* data_;
};

std::vector<std::int32_t> ints(std::span<const std::byte> bytes) {
  std::vector<std::int32_t> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(KernelCall, DividesRowsAmongItsCallsButNotWhatTheyShare) {
  const auto call = ThreeCalls().make();
  EXPECT_THAT(ints(call->tensor(CallTensor::positions, 0)), ElementsAre(0, 1));
  EXPECT_THAT(ints(call->tensor(CallTensor::positions, 2)), ElementsAre(4, 5));
  for (const std::int32_t i : {0, 1, 2})
    EXPECT_THAT(ints(call->tensor(CallTensor::block_table, i)), ElementsAre(7, 8, 9));
  for (const std::int32_t i : {0, 1, 2}) {
    const auto address =
        reinterpret_cast<std::uintptr_t>(call->tensor(CallTensor::slots, i).data());
    EXPECT_EQ(address % kTensorAlignment, 0u);
  }
  EXPECT_THAT(call->trespasses(), IsEmpty());
}

TEST(KernelCall, SeesWhatAnyOfItsCallsWritesOutsideItsOutputs) {
  const auto call = ThreeCalls().make();
  const std::span<const std::byte> slots = call->tensor(CallTensor::slots, 1);
  const_cast<std::byte&>(slots.data()[slots.size()]) = std::byte{0};
  EXPECT_THAT(call->trespasses(), ElementsAre("wrote past the end of slots"));
}

TEST(KernelCall, SeesAChangedInputOfAnyOfItsCalls) {
  const auto call = ThreeCalls().make();
  const_cast<std::byte&>(call->tensor(CallTensor::positions, 2)[0]) ^= std::byte{1};
  EXPECT_THAT(call->trespasses(), ElementsAre("changed its input positions"));
}

TEST(KernelCall, GivesEachCallACacheOfItsOwnIfAskedFor) {
  const std::vector<std::byte> rows(64, std::byte{5}), out(12);
  const KernelCall::Input inputs[] = {{CallTensor::cache, rows}};
  const KernelCall::Output outputs[] = {{CallTensor::out, out.size()}};
  const KernelCall shared({}, inputs, outputs, {.calls = 3});
  EXPECT_EQ(shared.tensor(CallTensor::cache, 2).data(), shared.tensor(CallTensor::cache).data());
  const KernelCall own({}, inputs, outputs, {.calls = 3, .own_caches = true});
  EXPECT_NE(own.tensor(CallTensor::cache, 2).data(), own.tensor(CallTensor::cache).data());
  EXPECT_THAT(own.tensor(CallTensor::cache, 2), ::testing::Each(std::byte{5}));
}

// Three pages of 64 bytes, 3 GiB apart.
struct FarPages {
  static constexpr std::int64_t kStride = std::int64_t{3} << 30;

  FarPages() : cache(static_cast<std::size_t>(2 * kStride + 64)) {
    const auto place = [&](std::int64_t page) { return cache.data() + page * kStride; };
    for (const int page : {0, 1, 2}) std::fill_n(place(page), 64, std::byte(page + 1));
    mlacheck_problem problem = {};
    problem.op = MLACHECK_SPARSE_ATTENTION;
    problem.u.sparse_attention.kv = {MLACHECK_CACHE_ROWS, MLACHECK_BF16, 6, 2, kStride, 32};
    const KernelCall::Input inputs[] = {{CallTensor::cache, cache.bytes()}};
    const KernelCall::Output outputs[] = {{CallTensor::out, 12}};
    call = std::make_unique<KernelCall>(problem, inputs, outputs);
  }
  std::byte& at(std::int64_t offset) const {
    return const_cast<std::byte&>(call->tensor(CallTensor::cache).data()[offset]);
  }

  AddressSpace cache;
  std::unique_ptr<KernelCall> call;
};

TEST(KernelCall, TakesMemoryForPagesAloneWhereTheyLieFarApart) {
  const FarPages far;
  for (const int page : {0, 1, 2}) {
    EXPECT_EQ(far.at(page * FarPages::kStride), std::byte(page + 1));
    EXPECT_EQ(far.at(page * FarPages::kStride + 63), std::byte(page + 1));
  }
  EXPECT_THAT(far.call->trespasses(), IsEmpty());
  struct stat info = {};
  ASSERT_EQ(fstat(far.call->file_descriptor(), &info), 0);
  EXPECT_GT(info.st_size, std::int64_t{6} << 30);
  EXPECT_LT(info.st_blocks * 512, 1 << 17);
}

TEST(KernelCall, SeesWhatIsWrittenOnPagesFarApartAndBetweenThem) {
  const FarPages on;
  on.at(2 * FarPages::kStride + 1) ^= std::byte{1};
  EXPECT_THAT(on.call->trespasses(), ElementsAre("changed its input cache"));
  for (const std::int64_t offset : {std::int64_t{64}, std::int64_t{1} << 32}) {
    const FarPages between;
    EXPECT_EQ(between.at(offset), std::byte{0});  // to read is harmless
    EXPECT_THAT(between.call->trespasses(), IsEmpty());
    between.at(offset) = std::byte{1};
    EXPECT_THAT(between.call->trespasses(), ElementsAre("wrote between the pages of cache"));
  }
  const FarPages past;
  past.at(2 * FarPages::kStride + 64) ^= std::byte{1};
  EXPECT_THAT(past.call->trespasses(), ElementsAre("wrote past the end of cache"));
}

TEST(KernelCall, TakesNoErrorForUnwrittenMemory) {
  const FarPages far;
  std::array<int, 2> pipe_ends = {};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  ASSERT_GE(dup2(pipe_ends[0], far.call->file_descriptor()), 0);  // cannot be searched
  for (const int end : pipe_ends) close(end);
  EXPECT_THROW(far.call->trespasses(), std::system_error);
}

// Positions to slots to slots of those, by two calls each.
TEST(KernelCall, ChainsStagesByWhatOneWroteAndTheNextReads) {
  const std::vector<std::int32_t> positions = {0, 1, 2, 3}, table = {5};
  KernelCall::Stage first, second;
  first.inputs = {{CallTensor::positions, std::as_bytes(std::span(positions))},
                  {CallTensor::block_table, std::as_bytes(std::span(table))}};
  first.outputs = {{CallTensor::slots, 16}};
  second.problem.op = MLACHECK_MAP_SLOTS;
  second.inputs = {{CallTensor::block_table, std::as_bytes(std::span(table))}};
  second.outputs = {{CallTensor::slots, 16}};
  second.links = {{CallTensor::positions, 0, CallTensor::slots}};
  const KernelCall chain(std::array{first, second}, 2);
  EXPECT_EQ(chain.stages(), 2u);
  EXPECT_EQ(chain.problem(1).op, MLACHECK_MAP_SLOTS);
  for (const std::int32_t i : {0, 1}) {
    EXPECT_EQ(chain.tensor(CallTensor::positions, i, 1).data(),
              chain.tensor(CallTensor::slots, i).data());
    EXPECT_NE(chain.tensor(CallTensor::slots, i, 1).data(),
              chain.tensor(CallTensor::slots, i).data());
  }
  // What the first writes is no changed input of the second's.
  const_cast<std::byte&>(chain.tensor(CallTensor::slots)[0]) = std::byte{1};
  EXPECT_THAT(chain.trespasses(), IsEmpty());
  const_cast<std::byte&>(chain.tensor(CallTensor::block_table, 0, 1)[0]) ^= std::byte{1};
  EXPECT_THAT(chain.trespasses(), ElementsAre("changed its input block_table"));
}

// As PROTOCOL.md has it.
TEST(KernelCall, LaysOutItsHeaderAsOtherLanguagesReadIt) {
  EXPECT_EQ(offsetof(CallHeader, bytes), 8u);
  EXPECT_EQ(offsetof(CallHeader, pieces), 16u);
  EXPECT_EQ(offsetof(CallHeader, problem), 448u);
  EXPECT_EQ(offsetof(LibraryDescription, kernels), 520u);
  EXPECT_EQ(sizeof(LibraryDescription::Kernel), 1792u);
  EXPECT_EQ(offsetof(LibraryDescription::Kernel, name), 512u);
}

TEST(KernelCall, RefusesRowsThatCannotBeDivided) {
  EXPECT_THROW(ThreeCalls().make(5), std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
