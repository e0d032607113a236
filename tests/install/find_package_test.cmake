# Given an installed TensorTap and nothing else of this checkout, the examples configure, build and run.
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

set(sanitize "")
if(SANITIZE)
  set(sanitize -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SCRATCH}/source -B ${SCRATCH}/build -DCMAKE_PREFIX_PATH=${prefix}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} ${sanitize})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)

file(STRINGS ${SCRATCH}/build/CMakeCache.txt found REGEX "^ttap_DIR:")
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
  run(${SCRATCH}/build/${name} ${SCRATCH}/out_${name})
  message(STATUS "${name}:\n${output}")
endforeach()
