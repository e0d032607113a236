#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>

#include "analyze/values/similar_keys.h"
#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/messages/error_text.h"
#include "cli/messages/newest_run.h"
#include "ttap/version.h"

namespace ttap::cli {
namespace {

constexpr const char* kOverview = R"(
Examples:
  ttap run -o out/run -- python x.py    run a program, record its PyTorch modules
  ttap ls out/run                       what was recorded
  ttap log out/run                      what ran, in which order, with what result
  ttap show out/run model.layers.0.mlp  one tensor: statistics, values, histogram
  ttap diff out/good out/bad            where two runs first differ, and which operator is to blame
  ttap mismatch out/vllm out/trainer    how far the token probabilities of two runs differ, and why
  ttap check out/run                    the first NaN or Inf, and every later one
  ttap blame out/run                    which operator is off by more than rounding, without a second run
  ttap replay out/run KEY               one operator or module again: the same bits, and how exact
  ttap hunt -- python good.py --against python bad.py
                                        which operator is wrong, and on which side
  ttap twice -- python x.py             which operator gives other bits when the program runs again
  ttap log out/graphs                   the nodes of torch.compile's graphs, which
                                        tap.graph_backend("out/graphs") recorded (docs/graphs.md)
  ttap COMMAND --help                   the options of a command

Exit codes: 0 all is well, 1 something was found, 2 an error; of run: the program's.)";

void print_usage_error(const CommandLine& line, const std::string& message) {
  const std::string verb = line.given_verb();
  print_error(verb, {.code = ErrorCode::kInvalidArgument,
                     .message = message,
                     .hint = verb.empty() ? "see ttap --help" : "see ttap " + verb + " --help"});
}

bool is_verb(const CommandLine& line, std::string_view word) {
  return std::ranges::any_of(line.verbs(), [&](const std::string& verb) { return verb == word; });
}

// "lst" → "did you mean ls?"
std::string unknown_verb(const CommandLine& line, const std::string& word) {
  std::string message = "there is no command '" + word + "'";
  for (const std::string& verb : line.verbs())
    if (edit_distance(word, verb, 2) <= 2) return message + "; did you mean '" + verb + "'?";
  return message;
}

int run(Start start) {
  CommandLine line("ttap", "Records every tensor of every operator, and looks at what was recorded.");
  line.add_version_flag("--version", std::string("ttap ") + version(), "Print the version");
  line.footer(kOverview);
  Command command;
  add_run(line, command, start);
  add_ls(line, command);
  add_log(line, command);
  add_show(line, command);
  add_check(line, command);
  add_diff(line, command);
  add_mismatch(line, command);
  add_blame(line, command);
  add_replay(line, command);
  add_hunt(line, command, start);
  add_twice(line, command, start);
  add_export(line, command);
  add_recover(line, command);
  add_doctor(line, command);

  if (start.argc > 1 && start.argv[1][0] != '-' && !is_verb(line, start.argv[1])) {
    print_usage_error(line, unknown_verb(line, start.argv[1]));
    return kError;
  }
  const auto parsed = line.parse(start.argc, start.argv);
  if (!parsed.ok()) {
    print_usage_error(line, parsed.error().message);
    return kError;
  }
  if (*parsed == CommandLine::Parsed::kAnswered) return kFine;
  if (!command.body) {
    Output help(STDERR_FILENO, {});
    help.write(line.help());
    (void)help.finish();
    return kError;
  }

  const ColorChoice color = command.options != nullptr ? command.options->color : ColorChoice::kAuto;
  Output out(STDOUT_FILENO, Terminal::of(STDOUT_FILENO, color));
  if (command.takes_newest_run) say_newest_run(command.name, command.options->path);
  const Result<ExitCode> code = command.body(out);
  const Status written = out.finish();
  if (!code.ok()) print_error(command.name, code.error());
  if (!written.ok()) print_error(command.name, written.error());
  return code.ok() && written.ok() ? *code : kError;
}

}  // namespace
}  // namespace ttap::cli

int main(int argc, char** argv) {
  // `ttap ls RUN | head` ends quietly and still with its own exit code: see Output.
  const auto sigpipe = std::signal(SIGPIPE, SIG_IGN);
  try {
    return ttap::cli::run({argc, argv, sigpipe});
  } catch (const std::bad_alloc&) {
    ttap::cli::print_error("", {.code = ttap::ErrorCode::kTooLarge, .message = "out of memory"});
  } catch (const std::exception& error) {
    ttap::cli::print_error("", {.message = error.what(), .hint = "this is a bug in ttap; please report it"});
  }
  return ttap::cli::kError;
}
