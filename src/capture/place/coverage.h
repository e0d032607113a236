#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ttap/recorder.h"
#include "ttap/result.h"

// What was recorded of a rank and what was not: coverage.json, written at the end beside its passes.
namespace ttap {

// kInvalidArgument when the text is not a JSON object; `what` names it.
Status check_json_object(std::string_view text, std::string_view what);

// A file beside the passes of a rank: it appears when it is whole.
Status write_side_file(const std::filesystem::path& path, std::string_view text);

// `source_json`: what the source of the tensors says of itself, an object; empty when it said nothing.
Status write_coverage(const std::filesystem::path& rank_directory, const Report& report, std::string_view source_json);

}  // namespace ttap
