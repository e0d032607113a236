# One static library per folder; `ttap`, the shared library that is installed, is made of all of them.
find_program(TTAP_CCACHE ccache)
if(TTAP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this, nothing that uses a precompiled header is found in the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${TTAP_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${TTAP_CCACHE})
endif()

add_library(ttap_flags INTERFACE)
target_compile_options(ttap_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion>)
# One rounding everywhere: a multiply and an add are fused only where the code says so.
target_compile_options(ttap_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(SKBUILD)  # what is given to others does not tell where it was built
  target_compile_options(ttap_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
endif()
# In unity builds a class of a file is taken for one of a header.
target_compile_options(ttap_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
if(TTAP_SANITIZE)
  target_compile_options(ttap_flags INTERFACE -fsanitize=${TTAP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ttap_flags INTERFACE -fsanitize=${TTAP_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # which warns of what the sanitizer has added
    target_compile_options(ttap_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-tsan>)
  endif()
endif()

# What most files include, precompiled: half of a small file's time. Not with clang, which refuses a precompiled header
# where other macros are defined than when it was made.
set(use_precompiled OFF)
if(TTAP_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(use_precompiled ON)
  target_compile_options(ttap_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # for ccache
endif()
set(ttap_common_headers <algorithm> <array> <atomic> <bit> <chrono> <cmath> <filesystem> <functional> <limits> <map>
  <memory> <mutex> <optional> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

# ttap_precompiled(NAME KIND headers…): a target that others reuse the header of. KIND is that of their code, LIBRARY or PROGRAM.
function(ttap_precompiled name kind)
  if(NOT use_precompiled)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ttap_flags ttap_fmt)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  if(kind STREQUAL "PROGRAM")
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
endfunction()
# Has `target` use the header of the target `name`.
function(ttap_use_precompiled target name)
  if(use_precompiled)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# A few files at a time are compiled as one: half the time of all, and little more for one that was changed.
function(ttap_compile_together target)
  if(NOT CMAKE_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
  endif()
endfunction()

# ttap_folder(NAME sources… [USES folder or package targets…])
function(ttap_folder name)
  cmake_parse_arguments(arg "" "" "USES;PRIVATE_USES" ${ARGN})
  add_library(ttap_${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(ttap_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(ttap_${name} PRIVATE TTAP_BUILDING)
  target_link_libraries(ttap_${name} PUBLIC ttap_flags ${arg_USES} PRIVATE ${arg_PRIVATE_USES})
  if(NOT CMAKE_UNITY_BUILD)  # which reads headers once for many files
    ttap_use_precompiled(ttap_${name} ttap_library_headers)
  endif()
  if(NOT name STREQUAL "cuda")  # tests have a runtime of their own in place of some of its files
    ttap_compile_together(ttap_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY TTAP_FOLDERS ttap_${name})
endfunction()

# Files that Highway compiles once for each vector target. They include themselves, so they stand alone in unity builds.
function(ttap_vector_kernels name)
  target_include_directories(ttap_${name} SYSTEM PRIVATE ${TTAP_HIGHWAY_INCLUDE})
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
endfunction()
