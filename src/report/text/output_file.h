#pragma once

#include <functional>
#include <string>

#include "report/text/output.h"

namespace ttap {

inline constexpr const char* kWritable = "name a file in a folder that exists and can be written";

// The error of a file that could not be written, with its path and what to do.
inline Error as_unwritable(Error error, const std::string& path) {
  if (error.code == ErrorCode::kUnsupported) return error;
  error.path = path;
  error.hint = kWritable;
  return error;
}

// What `write` writes, as a file that replaces what is there; none when that fails.
TTAP_API Status write_file(const std::string& path, const std::function<Status(Output&)>& write);

}  // namespace ttap
