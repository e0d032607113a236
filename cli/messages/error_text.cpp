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

ExitCode print_errors(std::string_view command, std::span<const FailedFile> failed) {
  for (const FailedFile& file : failed) print_error(command, file.error);
  return failed.empty() ? kFine : kError;
}

void write_failed(JsonWriter& json, std::span<const FailedFile> failed) {
  json.key("failed").begin_array();
  for (const FailedFile& file : failed) {
    json.begin_line().member("path", file.path).key("error");
    write_error(json, file.error);
    json.end();
  }
  json.end();
}

}  // namespace ttap::cli
