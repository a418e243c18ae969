#include "tools/device_record_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "fixtures/sha256.h"
#include "fixtures/temporary_folder.h"

namespace mlacheck {
namespace {

using ::testing::HasSubstr;

// This program has what a library for GPUs has: these bytes and, under clang's sanitizer, no others
// about them.
#ifdef __clang__
[[clang::no_sanitize("address")]]
#endif
[[gnu::section(".nv_fatbin"), gnu::used]] const char kCode[] =
    "code\0Cuda compilation tools, release 1.2, V1.2.3\0more";

std::string refusal(const std::filesystem::path& path) {
  try {
    device_code_of(path);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceCode, IsTheSectionForGpus) {
  const DeviceCode code = device_code_of("/proc/self/exe");
  EXPECT_EQ(code.what, ".nv_fatbin");
  EXPECT_EQ(code.sha256, sha256_hex(std::string_view(kCode, sizeof(kCode))));
  EXPECT_EQ(code.compiler, "Cuda compilation tools, release 1.2, V1.2.3");
}

TEST(DeviceCode, IsTheWholeLibraryWithoutOne) {
  const DeviceCode code = device_code_of(MLACHECK_REFERENCE_LIBRARY);
  EXPECT_EQ(code.what, "the whole library");
  EXPECT_EQ(code.sha256, sha256_file_hex(MLACHECK_REFERENCE_LIBRARY));
  EXPECT_NE(code.compiler, "");
}

TEST(DeviceCode, OfNoElfFileIsRefused) {
  const TemporaryFolder folder;
  folder.write("text", "no library");
  folder.write("short", std::string("\x7f"
                                    "ELF\2",
                                    5));
  EXPECT_THAT(refusal(folder / "text"), HasSubstr("text: is no ELF file"));
  EXPECT_THAT(refusal(folder / "short"), HasSubstr("short: is cut short"));
  EXPECT_THAT(refusal(folder / "none"), HasSubstr("none: "));
}

TEST(RecordOrigin, OfKernelsOnTheHostIsTheEmulator) {
  const KernelLibrary library = KernelLibrary::open(MLACHECK_REFERENCE_LIBRARY);
  EXPECT_FALSE(is_on_device(library));
  const RecordOrigin origin = origin_of(library);
  EXPECT_EQ(origin.gpu, "emulator");
  EXPECT_EQ(origin.compute_capability, 0);
  EXPECT_EQ(origin.library, library.name());
}

}  // namespace
}  // namespace mlacheck
