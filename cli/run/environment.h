#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ttap/result.h"

// What `ttap run` passes to the programs it starts, all of it in their environment.
namespace ttap::cli {

// As given on the command line; what is not given stays as the environment has it.
struct RecordingOptions {
  std::vector<std::string> filter = {};             // TTAP_FILTER, a JSON list
  std::optional<std::string> filter_function = {};  // TTAP_FILTER_FN
  std::vector<std::string> level = {};              // TTAP_LEVEL, a word or a JSON object
  std::optional<std::string> steps = {};            // TTAP_STEPS
  std::optional<std::string> ranks = {};            // TTAP_RANKS
  std::optional<std::string> roles = {};            // TTAP_ROLES
  std::optional<std::string> modules = {};          // TTAP_MODULES
  std::optional<std::string> format = {};           // TTAP_FORMAT
  std::optional<std::string> staging = {};          // TTAP_STAGING_BYTES
  std::optional<std::string> quota = {};            // TTAP_QUOTA_BYTES
  std::optional<std::string> when_full = {};        // TTAP_WHEN_FULL
  bool compiled = false;                            // TTAP_COMPILED
  bool ops = false;                                 // TTAP_OPS
  bool stacks = false;                              // TTAP_STACKS
  bool unseen_writes = false;                       // TTAP_UNSEEN_WRITES
  bool strict = false;                              // TTAP_STRICT
  bool quiet = false;                               // TTAP_QUIET
};

// A variable and its value; none to take it away.
struct Variable {
  std::string name;
  std::optional<std::string> value;
};

// Fails when a value is not well formed: better here than in every process of the program.
Result<std::vector<Variable>> variables_for(const RecordingOptions& options);

// The folder with the sitecustomize.py that Python imports as it starts: TTAP_LAUNCH_DIR, or beside the installed
// command, or in the sources this was built from.
Result<std::filesystem::path> launch_folder();

// Our own environment with TTAP_DIR, TTAP_RUN, TTAP_REPORT, the launch folder in front of PYTHONPATH, and `variables`.
// `is_run`: all processes record into the directory as it is (TTAP_RUN_NUMBER); else they look for their run in it.
std::vector<std::string> environment_with(const std::filesystem::path& directory, bool is_run,
                                          const std::filesystem::path& launch, const std::vector<Variable>& variables);

}  // namespace ttap::cli
