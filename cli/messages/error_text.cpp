#include "cli/messages/error_text.h"

#include <unistd.h>

#include "report/text/output.h"
#include "report/text/text.h"

namespace ttap::cli {

std::string_view advice_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "see --help";
    case ErrorCode::kNotFound: return "check the path; a run, a rank directory or one pass is expected";
    case ErrorCode::kIo: return "check that it can be read and that the disk is sound";
    case ErrorCode::kNoSpace: return "make room, or choose another directory";
    case ErrorCode::kNotThisFormat:
      return "give a .ttap, .pt or .safetensors file, a folder of .npy files, a rank directory or a run";
    case ErrorCode::kVersion: return "use a newer ttap";
    case ErrorCode::kTruncated: return "the rest was never written or has been cut off; copy or record it again";
    case ErrorCode::kCorrupt: return "it was damaged after it was recorded; copy or record it again";
    case ErrorCode::kUnsupported: return "save the tensors in another form, for example .safetensors";
    case ErrorCode::kTooLarge: return "split it, or record fewer tensors";
    case ErrorCode::kForbidden: return "save the tensors alone, without objects of other classes";
    case ErrorCode::kNotRecorded: return "record it with level full";
  }
  return "see --help";
}

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
