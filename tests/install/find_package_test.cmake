# Given an installed TensorTap and nothing else of this checkout, the examples and the program in docs/cpp.md configure,
# build and run, and the example that it looks at prints what it says.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code STREQUAL "0")
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\ngave ${code}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix ${SCRATCH}/prefix)
file(REMOVE_RECURSE ${SCRATCH})
# Copied, so that no path into the checkout can help.
file(COPY ${EXAMPLES}/ DESTINATION ${SCRATCH}/source)
file(READ ${DOCUMENT} document)

# The block of docs/cpp.md that begins with this line, without the line.
function(document_block first)
  string(FIND "${document}" "${first}\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "docs/cpp.md has no block with ${first}")
  endif()
  string(LENGTH "${first}\n" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${document}" ${begin} -1 rest)
  string(FIND "${rest}" "```" length)
  string(SUBSTRING "${rest}" 0 ${length} block)
  set(block "${block}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${SCRATCH}/document)
document_block("#include <ttap/recorder.h>")
file(WRITE ${SCRATCH}/document/engine.cpp "#include <ttap/recorder.h>

#include <cstdint>
#include <cstdio>
#include <vector>

struct Hidden { const void* data; int64_t rows, columns; };
static Hidden attention(const std::vector<uint16_t>& batch) {
  return {batch.data(), 2, static_cast<int64_t>(batch.size() / 2)};
}
static const std::vector<std::vector<uint16_t>> batches = {{1, 2, 3, 4}, {5, 6}};

int main() {
${block}}
")
document_block("find_package(ttap REQUIRED)")
file(WRITE ${SCRATCH}/document/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(engine LANGUAGES CXX)
add_compile_options(-Wall -Wextra -Werror)
add_executable(engine engine.cpp)
find_package(ttap REQUIRED)
${block}")

set(sanitize "")
if(SANITIZE)
  set(sanitize -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
foreach(folder source document)
  set(build ${SCRATCH}/build_${folder})
  run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SCRATCH}/${folder} -B ${build} -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} ${sanitize})
  run(${CMAKE_COMMAND} --build ${build})
endforeach()

file(STRINGS ${SCRATCH}/build_source/CMakeCache.txt found REGEX "^ttap_DIR:")
if(NOT found MATCHES "=${prefix}/")
  message(FATAL_ERROR "the examples were built against another TensorTap: ${found}")
endif()
string(REGEX MATCH "^[0-9]+\\.[0-9]+" soversion ${VERSION})
if(NOT EXISTS ${prefix}/lib/libttap.so.${soversion})
  message(FATAL_ERROR "libttap.so.${soversion} is not installed")
endif()

file(GLOB programs ${SCRATCH}/source/*.cpp)
if(NOT programs)
  message(FATAL_ERROR "no example to run")
endif()
foreach(program IN LISTS programs)
  cmake_path(GET program STEM name)
  # The one argument is where a program that records puts its run.
  run(${SCRATCH}/build_source/${name} ${SCRATCH}/out_${name})
  message(STATUS "${name}:\n${output}")
endforeach()

run(${CMAKE_COMMAND} -E chdir ${SCRATCH} ${SCRATCH}/build_document/engine)
if(NOT output MATCHES "^2 tensors .* in 2 passes")
  message(FATAL_ERROR "the program in docs/cpp.md recorded something else:\n${output}")
endif()

# Numbers, and the widths of columns, are another machine's.
function(without_numbers text)
  string(REGEX REPLACE "[0-9]+(\\.[0-9]+)?" "N" text "${text}")
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

execute_process(COMMAND ${prefix}/bin/ttap check out_record_demo WORKING_DIRECTORY ${SCRATCH}
  RESULT_VARIABLE code OUTPUT_VARIABLE output)
string(REPLACE "out_record_demo" "run/" output "${output}")
without_numbers("${output}")
set(printed "${text}")
document_block("$ ttap check run/")
without_numbers("${block}")
if(NOT code EQUAL 1 OR NOT printed STREQUAL text)
  message(FATAL_ERROR "docs/cpp.md shows another answer of ttap check:\n${printed}\n${text}")
endif()
