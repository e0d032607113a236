#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "capture/place/choose_run.h"
#include "cli/arguments/command.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/program_words.h"
#include "cli/messages/error_text.h"
#include "cli/run/child_process.h"
#include "cli/run/environment.h"
#include "cli/run/grafts.h"
#include "cli/run/report.h"
#include "report/run/describe.h"
#include "report/text/text.h"
#include "store/files/posix_file.h"
#include "store/sources/run_layout.h"

namespace ttap::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kHelp = R"(
Runs any program; the Python programs in it, also the processes they start, record
every call of a PyTorch module, and with --ops every operator, also of programs without
modules. Their code is not touched: all goes through the environment, and what an option
does not say stays as the environment has it.
Everything after -- is the program; without -- the first word that is no option
begins it. Input, output, signals and exit code are the program's own; the report at
the end is on stderr. 127: there is no such program, 126: it cannot be executed,
2: an error in the options, and nothing was run.

Examples:
  ttap run -- python train.py --epochs 1          into a new directory here
  ttap run -o out/run -- python -m package.train
  ttap run -o out/run --steps 0-2 -- torchrun --nproc-per-node 2 train.py
  ttap run -o out/run --level sketch --level 'lm_head=full' -- python train.py
  ttap run -o out/run --ops -- python train.py
  ttap run -o out/run --append -- python train.py      go on in the newest run there
  ttap run -o out/with --graft out/good:layers.3.mlp.up -- python train.py
  ttap run -o out/run --filter 'layers\.(0|31)\.' --steps 10-12 -- \
      python -m vllm.entrypoints.openai.api_server --model m)";

struct RunOptions {
  std::optional<std::string> directory;  // none: a fresh one
  bool append = false;
  RecordingOptions recording;
  GraftOptions grafts;
  Program program;                           // its environment is not made yet
  std::vector<std::string> program_in_help;  // for the help alone: take_program() has it before the parser does
};

struct Destination {
  fs::path path;      // absolute
  std::string shown;  // as the user knows it
  bool fresh = false;
  // Of the run in it. None: the ranks find it, since this process is one of several that are started at once.
  std::optional<uint32_t> number = {};
  std::set<fs::path> before = {};  // rank directories of earlier programs

  fs::path in_run(const fs::path& directory) const {
    return number.value_or(1) == 1 ? directory : directory / run_directory_name(*number);
  }
};

Error cannot_make(const fs::path& path, const std::string& why) {
  return {.code = ErrorCode::kIo,
          .message = fmt::format("cannot make the directory: {}", why),
          .path = path.string(),
          .hint = "choose a directory this user may write to: ttap run -o DIR -- ..."};
}

// ttap-run-20240131-235959, with -2, -3, … behind it when that is taken.
Result<Destination> make_fresh_directory() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  (void)::localtime_r(&now, &parts);
  const std::string stem = fmt::format("ttap-run-{:%Y%m%d-%H%M%S}", parts);
  for (int number = 1;; ++number) {
    const std::string name = number == 1 ? stem : fmt::format("{}-{}", stem, number);
    std::error_code error;
    if (fs::create_directory(name, error))
      return Destination{.path = fs::absolute(name), .shown = name, .fresh = true, .number = 1};
    if (error) return cannot_make(name, error.message());
  }
}

// Beside the runs that are there already, or appended to the newest of them.
Result<Destination> destination(const std::string& given, bool append) {
  std::error_code error;
  fs::create_directories(given, error);
  if (!error && !fs::is_directory(given, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) return cannot_make(given, error.message());
  const fs::path path = fs::absolute(given).lexically_normal();
  Destination to{.path = path.has_filename() ? path : path.parent_path(), .shown = given};
  TTAP_ASSIGN(const auto runs, runs_in(given));
  if (append) {
    to.number = runs.empty() ? 1 : runs.back().number;
    to.before = ranks_in(given);
    return to;
  }
  if (ProcessLaunch::of_this_process({}, {}).rank_count > 1) {
    to.before = ranks_in(given);
    return to;
  }
  to.number = next_run_number(given);
  if (*to.number == 1) return to;
  // Whoever makes the folder has the number.
  while (!fs::create_directory(to.path / run_directory_name(*to.number), error)) {
    if (error) return cannot_make(to.path / run_directory_name(*to.number), error.message());
    ++*to.number;
  }
  return to;
}

// The message and exit code of a shell.
ExitCode not_started(const char* name, int error) {
  Error message{.code = ErrorCode::kNotFound,
                .message = fmt::format("cannot run '{}': {}", name, std::strerror(error)),
                .hint = "check the name and PATH; options of ttap run go before the program"};
  std::error_code ignored;
  const bool is_there = fs::exists(name, ignored);
  if (error == ENOENT && is_there && std::string_view(name).find('/') != std::string_view::npos)
    message.hint = "the file is there; the interpreter named in its first line is not";
  else if (is_there && std::string_view(name).ends_with(".py"))
    message.hint = fmt::format("name the interpreter: ttap run -- python {}", shell_quoted(name));
  else if (error == EACCES)
    message.hint = "make it executable (chmod +x), or name its interpreter: ttap run -- python FILE";
  else if (error != ENOENT)
    message.hint = "give a program this machine can execute";
  print_error("run", message);
  return static_cast<ExitCode>(error == ENOENT ? 127 : 126);
}

void report(const Destination& to, bool removed) {
  Output out(STDERR_FILENO, Terminal::of(STDERR_FILENO, ColorChoice::kAuto));
  report_run(to.in_run(to.shown), to.before, out);
  if (removed) out.print("  {} was empty and has been removed\n", printable(to.shown));
  (void)out.finish();  // there is nowhere left to complain to
}

Result<ExitCode> run(const RunOptions& options) {
  if (options.program.words == nullptr)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "no program to run",
                 .hint = "name it after the options: ttap run -o out/run -- python train.py"};
  TTAP_ASSIGN(auto variables, variables_for(options.recording));
  TTAP_ASSIGN(const auto grafts, grafts_json(options.grafts, options.directory));
  variables.push_back({"TTAP_GRAFT", grafts});
  TTAP_ASSIGN(const fs::path launch, launch_folder());
  TTAP_ASSIGN(const Destination to,
              options.directory ? destination(*options.directory, options.append) : make_fresh_directory());

  Program program = options.program;
  program.environment = environment_with(to.in_run(to.path), to.number.has_value(), launch, variables);
  const auto end = run_program(program);
  // Only an empty one goes.
  if (to.number.value_or(1) > 1) (void)::rmdir((to.path / run_directory_name(*to.number)).c_str());
  const bool removed = to.fresh && ::rmdir(to.path.c_str()) == 0;
  if (!end.ok()) return end.error();
  if (end->exec_error != 0) return not_started(program.words[0], end->exec_error);
  if (!options.recording.quiet) report(to, removed);
  if (end->signal != 0) end_by_signal(end->signal);
  return static_cast<ExitCode>(end->exit_code);
}

}  // namespace

void add_run(CommandLine& line, Command& command, Start& start) {
  auto options = std::make_shared<RunOptions>();
  RecordingOptions& recording = options->recording;
  Verb verb = line.add_verb("run", "Runs a program and records its PyTorch modules");
  verb.add_option("PROGRAM", options->program_in_help, "The program and its arguments, after --").type_name("");
  const auto text = [&](const char* name, std::optional<std::string>& to, const char* type, const char* help) {
    return verb.add_option(name, to, help).type_name(type);
  };
  const auto several = [&](const char* name, std::vector<std::string>& to, const char* type, const char* help) {
    verb.add_option(name, to, help).type_name(type).one_value_each();
  };
  text("-o,--output", options->directory, "DIR",
       "Where the run goes; made if missing (default: ttap-run-DATE-TIME here). One that holds a run gets another");
  verb.add_flag("--append", options->append, "Go on in the newest run of DIR, instead of beginning another");
  several("--filter", recording.filter, "REGEX", "Only modules in whose name this PCRE2 pattern is found; repeatable");
  text("--filter-fn", recording.filter_function, "SPEC",
       "Only modules for which a function says so: package.module:function or /path/file.py:function");
  several("--level", recording.level, "LEVEL",
          "What is kept: meta, fingerprint, sketch or full (default); or PATTERN=LEVEL, repeatable, the first match "
          "counts");
  text("--steps", recording.steps, "SET", "Only these steps: 3, or 0,3-5, or 0,10-");
  text("--ranks", recording.ranks, "SET", "Only these ranks, written likewise");
  text("--roles", recording.roles, "LIST", "Which tensors of a call: some of out,in,grad_out,grad_in,param,cache");
  text("--modules", recording.modules, "WHICH", "leaf: only modules that hold no others; all").one_of({"leaf", "all"});
  verb.add_flag("--compiled", recording.compiled,
                "Also modules inside regions that torch.compile compiles: the compiled code records their results, and "
                "may round in other places than without");
  verb.add_flag("--ops", recording.ops,
                "Also every operator, forward and backward, whether a module runs it or not: see ttap log");
  verb.add_flag("--stacks", recording.stacks, "The Python stack of every operator");
  verb.add_flag("--unseen-writes", recording.unseen_writes,
                "The program writes to tensors without telling PyTorch: read every argument at every operator");
  several("--graft", options->grafts.from, "RUN:KEY",
          "Put this tensor of an earlier run into the program, where it was recorded: a module's result, its input "
          "(fc@in/0) or an operator's result; repeatable");
  text("--graft-names-of", options->grafts.names_of, "RUN",
       "A run of this program, where it has other names than that of --graft: ttap diff says which belong together");
  text("--format", recording.format, "FORMAT", "Of the files: ttap, pt, safetensors or npy")
      .one_of({"ttap", "pt", "safetensors", "npy"});
  text("--staging", recording.staging, "SIZE", "Memory between the program and the disk, in each process: 256M");
  text("--quota", recording.quota, "SIZE", "Disk space at most, for each process: 20G");
  text("--when-full", recording.when_full, "POLICY",
       "When the staging memory is full: block (wait, the default) or drop")
      .one_of({"block", "drop"});
  verb.add_flag("--strict", recording.strict, "What cannot be recorded is an error in the program");
  verb.add_flag("--quiet", recording.quiet, "No report at the end, and no warning that the recording grows fast");
  verb.footer(kHelp);

  options->program = {.words = take_program("run", verb, start), .sigpipe = start.sigpipe};
  verb.callback([options, &command] { command = {"run", nullptr, [options](Output&) { return run(*options); }}; });
}

}  // namespace ttap::cli
