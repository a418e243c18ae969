# The CUDA toolkit is optional: without nvcc everything else builds, and what needs it is skipped by name.
set(MLACHECK_CUDA AUTO CACHE STRING "Build CUDA kernels: AUTO (when nvcc is found), ON, OFF")
set_property(CACHE MLACHECK_CUDA PROPERTY STRINGS AUTO ON OFF)

set(MLACHECK_HAS_CUDA FALSE)
if(MLACHECK_CUDA STREQUAL "OFF" OR MLACHECK_BITS_ONLY)
  message(STATUS "CUDA: switched off, kernels are not built")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(MLACHECK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CUDA: MLACHECK_CUDA is ON but no nvcc was found (PATH, CUDACXX)")
  endif()
  message(STATUS "CUDA: no nvcc found, kernels are not built")
  return()
endif()

set(architectures ${CMAKE_CUDA_ARCHITECTURES})
if(NOT architectures)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)  # for the compiler's own test
endif()
enable_language(CUDA)
if(NOT architectures)
  # Those that this nvcc knows.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 120a-real)
  endif()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.9)
    list(APPEND CMAKE_CUDA_ARCHITECTURES 121a-real)
  endif()
endif()
# CMake 3.25 does not know that nvcc 12 and later speak C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(MLACHECK_HAS_CUDA TRUE)
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
