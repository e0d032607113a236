#include <fmt/format.h>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/program_words.h"
#include "cli/python/python_program.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
Runs a program twice, records every operator with hashes, and names the first one that
gives other bits from the same bits, on each rank: unseeded random numbers, memory that
was never written to, sums in another order. What is only called otherwise is told from
it: with another number, with other data, with the results of other calls, or in one run
alone. So is what only received other bits (docs/nondeterminism.md).
Everything after -- is the program; without -- the first word that is no option begins it.
What it prints goes to stderr, and its input is empty. The work is done by Python, with the
PyTorch that is there.

Examples:
  ttap twice -- python train.py
  ttap twice --times 20 -- python train.py     until a run differs from the first
  ttap twice --steps 0-2 -o out -- torchrun --nproc-per-node 2 train.py
  ttap twice --why -- python train.py          also what must be fixed for the same bits
  ttap twice --json -- python train.py | jq .first
  ttap twice --batch-invariance 4 -- python serve.py

Exit codes: 0 the same bits; 1 other bits, or other calls; 2 an error.)";

struct Arguments {
  SelectionOptions selection;
  uint32_t times = 2;
  std::optional<std::string> directory;
  std::optional<std::string> steps;
  std::optional<std::string> ranks;
  std::vector<std::string> filter;
  bool why = false;
  std::optional<uint32_t> requests;  // in a batch, for --batch-invariance
  PythonOptions python;
  char* const* program = nullptr;
  std::vector<std::string> program_in_help;  // for the help alone: take_program() has it before the parser does
};

std::vector<std::string> words_of(const Arguments& arguments) {
  std::vector<std::string> words = {"twice", "--ttap", own_path(), "--times", fmt::to_string(arguments.times)};
  if (arguments.directory) words.insert(words.end(), {"--output", *arguments.directory});
  if (arguments.steps) words.push_back("--steps=" + *arguments.steps);
  if (arguments.ranks) words.push_back("--ranks=" + *arguments.ranks);
  for (const std::string& pattern : arguments.filter) words.push_back("--filter=" + pattern);
  if (arguments.why) words.emplace_back("--why");
  if (arguments.requests) words.push_back(fmt::format("--batch-invariance={}", *arguments.requests));
  append_options(arguments.selection, words);
  append_program(arguments.program, words);
  return words;
}

Result<ExitCode> twice(const Arguments& arguments) {
  if (arguments.program == nullptr)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "no program to run",
                 .hint = "name it after the options: ttap twice -- python train.py"};
  if (arguments.times < 2)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("--times: {} runs cannot be compared", arguments.times),
                 .hint = "give 2 or more"};
  if (arguments.requests && *arguments.requests < 2)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("--batch-invariance: {} requests are no batch", *arguments.requests),
                 .hint = "give as many as are in a batch, 2 or more"};
  if (arguments.requests && (arguments.why || arguments.times != 2))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "--batch-invariance runs the program once, so --times and --why mean nothing with it",
                 .hint = "leave them out"};
  return become_python(arguments.python, words_of(arguments));
}

}  // namespace

void add_twice(CommandLine& line, Command& command, Start& start) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("twice", "Which operator gives other bits when the program runs again");
  verb.add_option("PROGRAM", options->program_in_help, "The program and its arguments, after --").type_name("");
  verb.add_option("--times", options->times, "Run it up to so many times, until one differs from the first")
      .type_name("N")
      .show_default();
  verb.add_option("-o,--output", options->directory, "Keep the recordings in DIR/1, DIR/2, ... (default: nowhere)")
      .type_name("DIR");
  verb.add_option("--steps", options->steps, "Record only these steps: 3, or 0,3-5, or 0,10-").type_name("SET");
  verb.add_option("--ranks", options->ranks, "Record only these ranks, written likewise").type_name("SET");
  verb.add_option("--filter", options->filter, "Only operators in whose name this PCRE2 pattern is found; repeatable")
      .type_name("REGEX")
      .one_value_each();
  verb.add_flag("--why", options->why,
                "Where runs differ, also run it twice with one thread, and twice with the same hash seed of Python");
  verb.add_option("--batch-invariance", options->requests,
                  "Instead: run it once, with N requests in a batch, and name the operators that give a request other "
                  "bits alone")
      .type_name("N");
  add_python(verb, options->python);
  add_output_options(verb, options->selection);
  verb.footer(kHelp);
  options->program = take_program("twice", verb, start);
  verb.callback([options, &command] {
    command = {"twice", &options->selection, [options](Output&) { return twice(*options); }};
  });
}

}  // namespace ttap::cli
