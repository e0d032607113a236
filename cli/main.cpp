#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>

#include "analyze/similar_keys.h"
#include "cli/command.h"
#include "cli/error_text.h"
#include "ttap/version.h"

namespace ttap::cli {
namespace {

constexpr const char* kOverview = R"(
Examples:
  ttap run -o out/run -- python x.py    run a program, record its PyTorch modules
  ttap ls out/run                       what was recorded
  ttap log out/run                      what ran, in which order, with what result
  ttap show out/run model.layers.0.mlp  one tensor: statistics, values, histogram
  ttap diff out/good out/bad            where two runs part, and which operator is to blame
  ttap check out/run                    the first NaN or Inf, and every later one
  ttap log out/graphs                   the nodes of torch.compile's graphs, which
                                        tap.graph_backend("out/graphs") recorded (docs/graphs.md)
  ttap COMMAND --help                   the options of a command

Exit codes: 0 all is well, 1 something was found, 2 an error; of run: the program's.)";

void print_usage_error(const CLI::App& app, const std::string& message) {
  const auto chosen = app.get_subcommands();
  const std::string name = chosen.empty() ? "" : chosen.front()->get_name();
  print_error(name, {.code = ErrorCode::kInvalidArgument,
                     .message = message,
                     .hint = name.empty() ? "see ttap --help" : "see ttap " + name + " --help"});
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

bool is_command(const CLI::App& app, std::string_view word) {
  return std::ranges::any_of(commands_of(app), [&](const CLI::App* verb) { return verb->get_name() == word; });
}

// "lst" → "did you mean ls?"
std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::string message = "there is no command '" + word + "'";
  for (const CLI::App* verb : commands_of(app))
    if (edit_distance(word, verb->get_name(), 2) <= 2) return message + "; did you mean '" + verb->get_name() + "'?";
  return message;
}

int run(Start start) {
  CLI::App app("Records every tensor of every operator, and looks at what was recorded.", "ttap");
  app.set_version_flag("--version", std::string("ttap ") + version(), "Print the version");
  app.footer(kOverview);
  app.require_subcommand(0, 1);
  Command command;
  add_run(app, command, start);
  add_ls(app, command);
  add_log(app, command);
  add_show(app, command);
  add_check(app, command);
  add_diff(app, command);
  add_export(app, command);
  add_recover(app, command);

  if (start.argc > 1 && start.argv[1][0] != '-' && !is_command(app, start.argv[1])) {
    print_usage_error(app, unknown_command(app, start.argv[1]));
    return kError;
  }
  try {
    app.parse(start.argc, start.argv);
  } catch (const CLI::Success& help_or_version) {
    app.exit(help_or_version);
    return kFine;
  } catch (const CLI::ParseError& error) {
    print_usage_error(app, error.what());
    return kError;
  }
  if (!command.body) {
    Output help(STDERR_FILENO, {});
    help.write(app.help());
    (void)help.finish();
    return kError;
  }

  const ColorChoice color = command.options != nullptr ? command.options->color : ColorChoice::kAuto;
  Output out(STDOUT_FILENO, Terminal::of(STDOUT_FILENO, color));
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
