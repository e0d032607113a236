#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ttap/result.h"

namespace ttap {

// A report of `ttap diff`, as JSON with details, as one HTML file that needs nothing else: script, style and Plotly are
// inside. It appears at `path` when it is whole and replaces what is there. kUnsupported when the build found no
// Plotly.
Status write_page(std::string_view report_json, const std::string& title, const std::filesystem::path& path);

// The same with another page than the one built in: a text with {{title}} and, behind it, {{report}}.
Status write_page_of(std::string_view page, std::string_view report_json, const std::string& title,
                     const std::filesystem::path& path);

}  // namespace ttap
