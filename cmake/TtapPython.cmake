# Python and nanobind, for the extensions of the package.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE missing)
if(missing)
  message(FATAL_ERROR "nanobind is not installed for ${Python_EXECUTABLE}: run `${Python_EXECUTABLE} -m pip install nanobind`")
endif()
find_package(nanobind CONFIG REQUIRED)
