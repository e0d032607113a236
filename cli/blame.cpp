#include <fmt/format.h>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/python/python_program.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
Calls every operator of a run again, in float64 and with the arguments that it was
recorded with, and says which results are farther from the exact ones than rounding
explains. No second run is needed. The run has operators at level full:
ttap run --ops --level full. The work is done by Python, with the PyTorch that is there
(docs/blame.md).

Examples:
  ttap blame out/run
  ttap blame out/run --pass 0 --top 30
  ttap blame out/run --device cuda
  ttap blame out/run --all               also each call that was not made again
  ttap blame out/run --json | jq .findings
  ttap blame out/run --sensitivity --output lm_head:aten::mm

--sensitivity asks another question: how much of the error of one result each operator
explains, so which of them to keep in a wider dtype. It ends with 0.

Exit codes: 0 rounding explains every call that was judged; 1 it does not; 2 an error.)";

struct Arguments {
  SelectionOptions selection;
  std::string device = "cpu";
  std::string output;
  PythonOptions python;
  uint32_t top = 10;
  bool all = false;
  bool sensitivity = false;
};

std::vector<std::string> words_of(const Arguments& arguments) {
  const SelectionOptions& selection = arguments.selection;
  std::vector<std::string> words = {"blame",          selection.path, "--device",
                                    arguments.device, "--top",        fmt::to_string(arguments.top)};
  if (arguments.sensitivity) words.emplace_back("--sensitivity");
  if (!arguments.output.empty()) words.insert(words.end(), {"--output", arguments.output});
  if (arguments.all) words.emplace_back("--all");
  append_options(selection, words);
  return words;
}

}  // namespace

void add_blame(CommandLine& line, Command& command) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("blame", "Which operators are farther from the exact result than rounding explains");
  add_run_argument(verb, options->selection);
  add_pass_and_rank(verb, options->selection);
  verb.add_option("--top", options->top, "How many calls to list").show_default();
  verb.add_flag("--all", options->all, "Also list each call that was not made again, with the reason");
  verb.add_flag("--sensitivity", options->sensitivity,
                "How much of a result's error each operator explains: which to keep in a wider dtype")
      .excludes({"--all"});
  verb.add_option("--output", options->output, "Of --sensitivity, the result; by default the last of the forward")
      .type_name("KEY")
      .needs("--sensitivity");
  add_device(verb, options->device);
  add_python(verb, options->python);
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"blame", &options->selection,
               [options](Output&) { return become_python(options->python, words_of(*options)); }};
    command.takes_newest_run = true;
  });
}

}  // namespace ttap::cli
