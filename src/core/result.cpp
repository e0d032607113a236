#include "ttap/result.h"

#include <fmt/format.h>

namespace ttap {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kIo: return "i/o error";
    case ErrorCode::kNoSpace: return "no space";
    case ErrorCode::kNotThisFormat: return "another format";
    case ErrorCode::kVersion: return "unknown version";
    case ErrorCode::kTruncated: return "truncated";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kTooLarge: return "too large";
    case ErrorCode::kForbidden: return "forbidden";
    case ErrorCode::kNotRecorded: return "not recorded";
  }
  return "unknown error";
}

std::string Error::describe() const {
  std::string text;
  if (!path.empty()) text += path + ": ";
  text += message;
  if (offset) text += fmt::format(" (at byte {})", *offset);
  if (!hint.empty()) text += fmt::format("; {}", hint);
  return text;
}

void detail::check_failed(const char* what, const char* file, int line) {
  // The only thing the library ever prints: it is about to abort over a bug of its own.
  fmt::print(stderr, "ttap: internal check failed: {} at {}:{}; please report this\n", what, file, line);
  std::abort();
}

}  // namespace ttap
