# mlacheck_numerics: what makes a build bit-explicit. Every target of the project links it.
add_library(mlacheck_numerics INTERFACE)
target_compile_options(mlacheck_numerics INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off -fno-fast-math>)
target_include_directories(mlacheck_numerics INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(MLACHECK_SANITIZE)
  # The text of tests and of the program is left to AddressSanitizer: the other one takes a third of the time to
  # compile it (mlacheck_compile_quickly).
  target_compile_options(mlacheck_numerics INTERFACE
    -fsanitize=address $<$<NOT:$<BOOL:$<TARGET_PROPERTY:MLACHECK_COMPILED_QUICKLY>>>:-fsanitize=undefined>
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(mlacheck_numerics INTERFACE -fsanitize=address,undefined)
endif()

if(MLACHECK_FUZZ)
  target_compile_options(mlacheck_numerics INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(mlacheck_numerics INTERFACE -fsanitize=address,undefined)
endif()

add_library(mlacheck_warnings INTERFACE)
target_compile_options(mlacheck_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    -Wdouble-promotion -Wformat=2 -Wcast-align -Wimplicit-fallthrough>
  $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi>
  # gcc 12 sees overlapping copies in "literal" + std::string (its bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(MLACHECK_WARNINGS_AS_ERRORS)
  target_compile_options(mlacheck_warnings INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()

# mlacheck_compile_quickly(<target>): tests and the program, which take longer to compile than to run: optimised less, and
# under the sanitizers compiled with AddressSanitizer alone.
function(mlacheck_compile_quickly target)
  set_target_properties(${target} PROPERTIES MLACHECK_COMPILED_QUICKLY ON)
  # At -O1 gcc 12 sees std::string write out of bounds (its bug 105651).
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow>
    $<$<BOOL:${MLACHECK_SANITIZE}>:-g0>)
endfunction()

# mlacheck_library(<name> SOURCES ... DEPENDS ...): a static library mlacheck_<name>.
function(mlacheck_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(mlacheck_${name} STATIC ${arg_SOURCES})
  target_link_libraries(mlacheck_${name}
    PUBLIC mlacheck_numerics ${arg_DEPENDS}
    PRIVATE $<BUILD_INTERFACE:mlacheck_warnings> ${arg_PRIVATE_DEPENDS})
endfunction()

# mlacheck_test(<source without .cpp> [AND <sources without .cpp>] DEPENDS ... LABELS fast|slow|manual): one GoogleTest
# program, named after its first source, of as many of a library's tests as go together: headers are most of what
# compiling them takes, and a program's sources are compiled in batches too. Every test case in it is a ctest of its
# own, so that a skip shows by name. "fast" also runs under the sanitizers, but where a folder sets MLACHECK_PLAIN_TESTS;
# "manual" runs by hand alone (ctest -L manual). Tests are optimised less than what they test, and share the first one's
# precompiled headers and so all of its flags.
function(mlacheck_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "AND;DEPENDS;LABELS" ${ARGN})
  if(NOT MLACHECK_TESTS OR MLACHECK_BITS_ONLY)
    return()
  endif()
  if(MLACHECK_SANITIZE AND (MLACHECK_PLAIN_TESTS OR NOT "fast" IN_LIST arg_LABELS))
    return()
  endif()
  list(TRANSFORM arg_AND APPEND .cpp)
  add_executable(${name} ${name}.cpp ${arg_AND})
  target_link_libraries(${name} PRIVATE mlacheck_numerics mlacheck_warnings ${arg_DEPENDS}
    fmt::fmt OpenMP::OpenMP_CXX GTest::gtest GTest::gmock GTest::gtest_main)
  target_link_options(${name} PRIVATE $<$<BOOL:${MLACHECK_LLD}>:-fuse-ld=lld>)
  mlacheck_compile_quickly(${name})
  get_property(first_test GLOBAL PROPERTY MLACHECK_FIRST_TEST)
  if(first_test)
    target_precompile_headers(${name} REUSE_FROM ${first_test})
  else()
    set_property(GLOBAL PROPERTY MLACHECK_FIRST_TEST ${name})
    target_precompile_headers(${name} PRIVATE
      <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> <algorithm> <cmath> <filesystem> <fstream> <random> <span>)
  endif()
  target_compile_definitions(${name} PRIVATE MLACHECK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# mlacheck_fuzzer(<source without .cpp> DEPENDS ...): one libFuzzer program. Run it by hand.
function(mlacheck_fuzzer name)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  if(NOT MLACHECK_FUZZ)
    return()
  endif()
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE mlacheck_numerics mlacheck_warnings ${arg_DEPENDS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# mlacheck_benchmark(<source without .cpp> DEPENDS ...): one Google Benchmark program.
function(mlacheck_benchmark name)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  if(NOT MLACHECK_BENCHMARKS OR MLACHECK_BITS_ONLY)
    return()
  endif()
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE mlacheck_numerics mlacheck_warnings ${arg_DEPENDS}
    benchmark::benchmark benchmark::benchmark_main)
endfunction()
