#include "cli/messages/newest_run.h"

#include <unistd.h>

#include "report/text/output.h"
#include "report/text/text.h"
#include "ttap/run.h"

namespace ttap::cli {

void say_newest_run(std::string_view command, const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  const auto runs = runs_in(path);
  if (!runs.ok() || runs->size() < 2) return;
  Output out(STDERR_FILENO, Terminal::of(STDERR_FILENO, ColorChoice::kAuto));
  out.print("ttap {}: {} holds {} runs; this is the newest, {} (the others: ttap ls {} --runs)\n", command,
            printable(path), runs->size(), printable(runs->back().path.string()), shell_quoted(path));
  (void)out.finish();  // there is nowhere left to complain to
}

}  // namespace ttap::cli
