#pragma once

#include <filesystem>
#include <string>

#include "ttap/result.h"

namespace ttap::cli {

// What a Python interpreter has of what recording needs; launch/tensortap_about.py answers.
struct PythonFacts {
  std::string executable;
  std::string version;
  std::string package;  // where tensortap lies; empty: it cannot be imported, for this reason:
  std::string package_error;
  std::string torch;  // its version; empty: it cannot be imported, for this reason:
  std::string torch_error;
  std::string torch_gpu;  // the GPU that PyTorch uses; empty: none
  bool sees_operators = false;
  std::string operators;  // how, or why not
};

// Asks `python`, a path or a name on the PATH, by running the launcher's tensortap_about.py with it.
Result<PythonFacts> ask_python(const std::string& python, const std::filesystem::path& launch_folder);

}  // namespace ttap::cli
