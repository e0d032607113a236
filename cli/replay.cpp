#include <optional>

#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/python/python_program.h"

namespace ttap::cli {
namespace {

constexpr const char* kHelp = R"(
Calls one operator of a run again, from the recording alone: whether it gives the recorded
bits, and how far the recorded result is from the exact one, that of float64. KEY is a
result of the operator, as ttap ls and ttap log show it. The run has operators at level
full: ttap run --ops --level full. The work is done by Python, with the PyTorch that is
there (docs/blame.md).

A call of a module is made again with --model, which names a function that gives the model.
The run has its inputs and weights: ttap run --roles in,out,param. Its distance from the
same module in float64 is said; what rounding explains is not known of many operators.

Examples:
  ttap replay out/run 'encoder.layer.0.dense:aten::addmm'
  ttap replay out/run 'aten::mm::call2' --pass 3 --device cuda
  ttap replay out/run 'aten::mm' --dtype bf16     what bf16 would lose here
  ttap replay out/run 'aten::mm' --json
  ttap replay out/run encoder.layer.0 --model net.py:make

Exit codes: 0 the recorded bits, or an error that rounding explains; 1 other bits and an
error that it does not explain, of a module other bits; 2 an error, or the call cannot be
made again.)";

struct Arguments {
  SelectionOptions selection;
  std::string key;
  std::string device = "cpu";
  std::optional<std::string> dtype;
  std::optional<std::string> model;
  PythonOptions python;
};

std::vector<std::string> words_of(const Arguments& arguments) {
  const SelectionOptions& selection = arguments.selection;
  std::vector<std::string> words = {"replay", selection.path, arguments.key, "--device", arguments.device};
  if (arguments.dtype) words.insert(words.end(), {"--dtype", *arguments.dtype});
  if (arguments.model) words.insert(words.end(), {"--model", *arguments.model});
  append_options(selection, words);
  return words;
}

}  // namespace

void add_replay(CommandLine& line, Command& command) {
  auto options = std::make_shared<Arguments>();
  Verb verb = line.add_verb("replay", "Calls one recorded operator or module again: the same bits, and how exact");
  add_run_argument(verb, options->selection);
  verb.add_option("KEY", options->key, "A result of the operator or module").required().type_name("");
  add_pass_and_rank(verb, options->selection);
  add_device(verb, options->device);
  verb.add_option("--dtype", options->dtype, "Also with its arguments in this dtype, and how far that is from exact")
      .type_name("DTYPE")
      .one_of({"f64", "f32", "bf16", "f16"});
  verb.add_option("--model", options->model,
                  "For a module: the function that gives its model, /path/file.py:make or package.module:make")
      .type_name("FUNCTION");
  add_python(verb, options->python);
  verb.footer(kHelp);
  verb.callback([options, &command] {
    command = {"replay", &options->selection,
               [options](Output&) { return become_python(options->python, words_of(*options)); }};
    command.takes_newest_run = true;
  });
}

}  // namespace ttap::cli
