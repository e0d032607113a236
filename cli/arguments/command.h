#pragma once

#include <functional>
#include <string>

#include "cli/arguments/selection.h"
#include "report/text/output.h"

namespace ttap::cli {

class CommandLine;

// Of our own findings; `run` ends with any code its program ends with.
enum ExitCode : int { kFine = 0, kFinding = 1, kError = 2 };

// The command that was given: main() makes its output and runs it.
struct Command {
  std::string name;
  const SelectionOptions* options = nullptr;  // null for a command without them
  std::function<Result<ExitCode>(Output&)> body;
  bool takes_newest_run = false;  // of the directory that is given
};

// What the operating system started us with.
struct Start {
  int argc;
  char** argv;
  void (*sigpipe)(int);  // the disposition of SIGPIPE, which main() changes
};

// Each adds a verb with its options and help; when it is the one given, it fills in `command`.
void add_run(CommandLine& line, Command& command, Start& start);  // takes the program and its words off argc
void add_ls(CommandLine& line, Command& command);
void add_log(CommandLine& line, Command& command);
void add_show(CommandLine& line, Command& command);
void add_check(CommandLine& line, Command& command);
void add_diff(CommandLine& line, Command& command);
void add_blame(CommandLine& line, Command& command);
void add_replay(CommandLine& line, Command& command);
void add_hunt(CommandLine& line, Command& command, Start& start);   // takes the programs and their words off argc
void add_twice(CommandLine& line, Command& command, Start& start);  // takes the program and its words off argc
void add_export(CommandLine& line, Command& command);
void add_mismatch(CommandLine& line, Command& command);
void add_recover(CommandLine& line, Command& command);
void add_doctor(CommandLine& line, Command& command);

}  // namespace ttap::cli
