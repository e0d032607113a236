#pragma once

#include <array>
#include <string>
#include <vector>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"

// Commands whose work needs PyTorch are done by the Python package.
namespace ttap::cli {

// The interpreter that lies beside the command, else the one that `ttap run -- python …` would find.
std::string usual_python();

// The command itself, for work that runs programs with it.
std::string own_path();

// The interpreter that does the work (empty: the usual one), and what it imports before: libraries that register
// operators.
struct PythonOptions {
  std::string path;
  std::vector<std::string> imports;
};

// --python and --import.
std::array<Option, 2> add_python(Verb& verb, PythonOptions& python);
// --device, of what it calls again.
Option add_device(Verb& verb, std::string& device);

// What the options that commands share were given as, for the package's command: --pass, --rank, --json, --color.
void append_options(const SelectionOptions& given, std::vector<std::string>& words);

// The program of `ttap hunt` and `ttap twice`, behind "--".
void append_program(char* const* program, std::vector<std::string>& words);

// Becomes the interpreter, which runs the package's command with these words: its name first. Returns only when that
// fails.
Result<ExitCode> become_python(const PythonOptions& python, const std::vector<std::string>& words);

}  // namespace ttap::cli
