#pragma once

#include <functional>
#include <string>

#include "report/text/output.h"

namespace ttap {

inline constexpr const char* kWritable = "name a file in a folder that exists and can be written";

// What `write` writes, as a file that replaces what is there; none when that fails.
TTAP_API Status write_file(const std::string& path, const std::function<Status(Output&)>& write);

}  // namespace ttap
