# What a kernel developer installs: the program, the kernel libraries of the project (the reference, the emulated
# kernels, those for GPUs where nvcc built them), the C header (as a CMake package too: find_package(mlacheck),
# mlacheck::kernel_abi) and the golden files.
if(MLACHECK_BITS_ONLY)
  return()
endif()

include(CMakePackageConfigHelpers)

install(TARGETS mlacheck RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(library mlacheck_reference mlacheck_emulated mlacheck_museum mlacheck_gpu mlacheck_floors)
  if(TARGET ${library})
    install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/mlacheck)
  endif()
endforeach()
install(FILES cuda/include/mlacheck_kernel.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES property_tests/museum/recipes.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/mlacheck RENAME museum_recipes.txt)
install(DIRECTORY golden/ DESTINATION ${CMAKE_INSTALL_DATADIR}/mlacheck/golden)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mlacheck)
install(TARGETS mlacheck_kernel_abi EXPORT mlacheckTargets)
install(EXPORT mlacheckTargets NAMESPACE mlacheck:: DESTINATION ${package_dir})
configure_package_config_file(cmake/mlacheckConfig.cmake.in mlacheckConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(mlacheckConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mlacheckConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/mlacheckConfigVersion.cmake
  DESTINATION ${package_dir})
