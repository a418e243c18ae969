include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Warnings are errors in CI alone: a newer compiler must not break a user's build.
option(MLACHECK_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)
option(MLACHECK_TESTS "Build the tests" ON)
option(MLACHECK_BENCHMARKS "Build the benchmarks" ON)
option(MLACHECK_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(MLACHECK_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
# The bit-explicit core and its replay program alone: needs nothing but the headers of Eigen, fmt and xxHash,
# so that it can be cross-compiled.
option(MLACHECK_BITS_ONLY "Build only the bit-explicit core and mlacheck_bits" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# gcc collects its garbage before it needs to: a tenth of the time to compile this project.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
