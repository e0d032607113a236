#include <fmt/format.h>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/program_words.h"
#include "cli/python/python_program.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
Runs two programs and says which operator makes the second one compute something else.
Both are recorded with fingerprints of every operator, and compared. Then both run again,
and keep the bytes of the suspects alone; these are called again in float64, which tells
the side that is wrong from the one that is right. For each suspect a program of plain
PyTorch is written that shows the error by itself (docs/hunting.md).
The first program stands behind --, the second behind --against; without that the program
is run against itself. What they print goes to stderr, and their input is empty. The work
is done by Python, with the PyTorch that is there.

Examples:
  ttap hunt -- python good.py --against python bad.py
  ttap hunt -o out --steps 0-2 -- python train.py --against python train.py --compile
  ttap hunt -- python main/run.py --against python branch/run.py
  ttap hunt --confirm -- python good.py --against python bad.py
  ttap hunt --json -- python good.py --against python bad.py | jq .sentence

Exit codes: 0 the programs agree; 1 they differ; 2 an error.)";

struct Arguments {
  SelectionOptions selection;
  std::optional<std::string> directory;
  std::optional<std::string> steps;
  std::optional<std::string> ranks;
  uint32_t suspects = 3;
  bool confirm = false;
  std::string device = "cpu";
  PythonOptions python;
  char* const* programs = nullptr;
  std::vector<std::string> programs_in_help;  // for the help alone: take_program() has them before the parser does
};

std::vector<std::string> words_of(const Arguments& arguments) {
  std::vector<std::string> words = {
      "hunt", "--ttap", own_path(), "--suspects", fmt::to_string(arguments.suspects), "--device", arguments.device};
  if (arguments.directory) words.insert(words.end(), {"--output", *arguments.directory});
  if (arguments.steps) words.push_back("--run-option=--steps=" + *arguments.steps);
  if (arguments.ranks) words.push_back("--run-option=--ranks=" + *arguments.ranks);
  if (arguments.confirm) words.emplace_back("--confirm");
  append_options(arguments.selection, words);
  append_program(arguments.programs, words);
  return words;
}

Result<ExitCode> hunt(const Arguments& arguments) {
  if (arguments.programs == nullptr)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "no programs to run",
                 .hint = "name them after the options: ttap hunt -- python good.py --against python bad.py"};
  return become_python(arguments.python, words_of(arguments));
}

}  // namespace

void add_hunt(CommandLine& line, Command& command, Start& start) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("hunt", "Which operator makes one program compute something else than another");
  verb.add_option("PROGRAMS", options->programs_in_help,
                  "The programs, after --: python good.py --against python bad.py")
      .type_name("");
  verb.add_option("-o,--output", options->directory,
                  "Where the recordings and the programs that show the suspects go (default: ttap-hunt-DATE-TIME here)")
      .type_name("DIR");
  verb.add_option("--steps", options->steps, "Compare only these steps: 3, or 0,3-5, or 0,10-").type_name("SET");
  verb.add_option("--ranks", options->ranks, "Compare only these ranks, written likewise").type_name("SET");
  verb.add_option("--suspects", options->suspects, "How many are followed up").type_name("N").show_default();
  verb.add_flag("--confirm", options->confirm,
                "Also run the second program with the suspect's result taken from the first: how much of the error of "
                "its output that removes");
  add_device(verb, options->device);
  add_python(verb, options->python);
  add_output_options(verb, options->selection);
  verb.footer(kHelp);
  options->programs = take_program("hunt", verb, start);
  verb.callback([options, &command] {
    command = {"hunt", &options->selection, [options](Output&) { return hunt(*options); }};
  });
}

}  // namespace ttap::cli
