#include "cuda/plugin/kernel_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cuda/plugin/library_description.h"
#include "fixtures/temporary_folder.h"

namespace mlacheck {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

KernelLibrary describe(const std::string& path) {
  return describe_in_worker(service_by("/proc/self/exe", path, kKernelTimeout, seconds(2)));
}

std::string refusal(const std::string& path) {
  try {
    describe(path);
  } catch (const KernelLibraryError& error) {
    return error.what();
  }
  return "";
}

TEST(KernelLibrary, RefusesWhatIsNoKernelLibraryAndSaysWhy) {
  EXPECT_EQ(refusal("/nowhere/libx.so"), "/nowhere/libx.so: no such file");
  const TemporaryFolder folder;
  folder.write("libtext.so", "no shared object");
  const std::string text = folder / "libtext.so";
  EXPECT_THAT(refusal(text), HasSubstr(text));
  EXPECT_THAT(refusal(LYING_SYMBOL), HasSubstr("exports no function"));
  EXPECT_THAT(refusal(LYING_ABI), HasSubstr("built for ABI version 2"));
  EXPECT_THAT(refusal(LYING_CONTRACT), HasSubstr("contract.exp_error is 1"));
  EXPECT_THAT(refusal(LYING_SIZE), HasSubstr("has struct_size 263, expected at least 264"));
  EXPECT_THAT(refusal(LYING_NAME),
              HasSubstr("a kernel's name 'two\\x0alines' holds a control character"));
}

TEST(KernelLibrary, TakesOneThatWasBuiltBeforeFieldsWereAppended) {
  EXPECT_EQ(refusal(LYING_OLDER), "");
}

// Whatever loading it does, it does to the worker alone.
TEST(KernelLibrary, OutlivesOneThatEndsTheProcessThatLoadsIt) {
  EXPECT_THAT(refusal(LYING_EXITS), HasSubstr("ends the process when it is loaded: ended with exit "
                                              "status 0"));
  EXPECT_THAT(refusal(LYING_CRASHES),
              HasSubstr("crashes when it is loaded: killed by signal 6 (Aborted)"));
  EXPECT_THAT(refusal(LYING_HANGS), HasSubstr("is not loaded after 2 s"));
  EXPECT_EQ(refusal(LYING_ENDS_BADLY), "");
}

// What its own process sees, but for the functions.
TEST(KernelLibrary, IsDescribedAsItIs) {
  const KernelLibrary opened = KernelLibrary::open(LYING_KERNELS);
  const KernelLibrary described = describe(LYING_KERNELS);
  EXPECT_EQ(described.path(), LYING_KERNELS);
  EXPECT_EQ(described.name(), "lying");
  EXPECT_EQ(described.version(), "1");
  ASSERT_EQ(described.kernels().size(), opened.kernels().size());
  for (const mlacheck_kernel* kernel : opened.kernels()) {
    const mlacheck_kernel& twin = described.kernel(kernel->name);
    EXPECT_STREQ(twin.description, kernel->description);
    EXPECT_EQ(twin.op, kernel->op);
    EXPECT_EQ(twin.contract.qk.alignment_bits, kernel->contract.qk.alignment_bits);
    EXPECT_EQ(twin.conventions.lse_base, kernel->conventions.lse_base);
    EXPECT_EQ(twin.run, nullptr);
  }
}

TEST(KernelLibrary, IsNoneWithoutAProgramToDescribeIt) {
  EXPECT_THROW(describe_in_worker(service_by("/nowhere/mlacheck", LYING_KERNELS)),
               std::system_error);
  EXPECT_THROW(describe_in_worker(service_by("/bin/false", LYING_KERNELS)), std::runtime_error);
}

}  // namespace
}  // namespace mlacheck
