# Components: `runtime` is what a machine needs to run (the command and the library), `development` is what
# find_package(ttap) needs besides, `python` is what the Python package holds besides its own files.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ttap)

install(TARGETS ttap EXPORT ttapTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
if(TARGET ttap_cli)
  set_target_properties(ttap_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ttap_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  # What `ttap run` puts in front of PYTHONPATH; `package-path` says where the Python package is.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/package-path CONTENT "${PROJECT_SOURCE_DIR}/python\n")
  install(FILES ${PROJECT_SOURCE_DIR}/python/tensortap/launch/sitecustomize.py
    ${PROJECT_SOURCE_DIR}/python/tensortap/launch/tensortap_about.py
    ${PROJECT_SOURCE_DIR}/python/tensortap/launch/tensortap_command.py ${PROJECT_SOURCE_DIR}/python/tensortap/launch/tensortap_path.py
    ${PROJECT_BINARY_DIR}/package-path DESTINATION share/ttap/launch COMPONENT runtime)
  # Tells engines of their adapters, while this folder is on PYTHONPATH.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/tensortap/launch/tensortap_launch-0.dist-info DESTINATION share/ttap/launch
    COMPONENT runtime)
endif()

# A wheel: the command, and the sources of the observer for a PyTorch that it was not built with (observer_build.py).
if(SKBUILD)
  install(PROGRAMS $<TARGET_FILE:ttap_cli> DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
  set(observer_source observer_source)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ttap DESTINATION ${observer_source}/include COMPONENT python)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src DESTINATION ${observer_source} COMPONENT python
    FILES_MATCHING PATTERN "*.h" PATTERN "torch/*.cpp" PATTERN "torch/*/*.cpp")
  install(DIRECTORY ${NB_DIR}/include ${NB_DIR}/src ${NB_DIR}/ext DESTINATION ${observer_source}/nanobind COMPONENT python
    FILES_MATCHING PATTERN "*.h" PATTERN "*.cpp")
  find_path(fmt_include fmt/format.h REQUIRED)
  install(FILES ${fmt_include}/fmt/core.h ${fmt_include}/fmt/format.h ${fmt_include}/fmt/format-inl.h
    DESTINATION ${observer_source}/fmt/fmt COMPONENT python)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ttap DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT ttapTargets NAMESPACE ttap:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ttapConfig.cmake.in ${PROJECT_BINARY_DIR}/ttapConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ttapConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ttapConfig.cmake ${PROJECT_BINARY_DIR}/ttapConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)
