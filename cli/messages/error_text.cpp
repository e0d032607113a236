#include "cli/messages/error_text.h"

#include <unistd.h>

#include "report/run/describe.h"
#include "report/text/output.h"
#include "report/text/text.h"

namespace ttap::cli {

void print_error(std::string_view command, const Error& error) {
  Output out(STDERR_FILENO, Terminal::of(STDERR_FILENO, ColorChoice::kAuto));
  out.print("ttap{}{}: ", command.empty() ? "" : " ", command);
  out.write(Style::kRed, "error:");
  if (!error.path.empty()) out.print(" {}:", printable(error.path));
  out.print(" {}", printable(error.message));
  if (error.offset) out.print(" (at byte {})", *error.offset);
  out.print("\n  what to do: {}\n", error.hint.empty() ? std::string(advice_for(error.code)) : printable(error.hint));
  (void)out.finish();  // there is nowhere left to complain to
}

}  // namespace ttap::cli
