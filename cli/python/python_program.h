#pragma once

#include <string>
#include <vector>

#include "cli/arguments/command.h"

// Commands whose work needs PyTorch are done by the Python package.
namespace ttap::cli {

// The interpreter that lies beside the command, else the one that `ttap run -- python …` would find.
std::string usual_python();

// The command itself, for work that runs programs with it.
std::string own_path();

// What the options that commands share were given as, for the package's command: --pass, --rank, --json, --color.
void append_options(const SelectionOptions& given, std::vector<std::string>& words);

// The program of `ttap hunt` and `ttap twice`, behind "--".
void append_program(char* const* program, std::vector<std::string>& words);

// Becomes the interpreter `python` (empty: the usual one), which runs the package's command with these words. Returns
// only when that fails.
Result<ExitCode> become_python(const std::string& python, const std::vector<std::string>& words);

}  // namespace ttap::cli
