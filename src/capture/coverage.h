#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "store/files/posix_file.h"
#include "ttap/recorder.h"
#include "ttap/result.h"

// The two files that stand beside a rank's passes: rank.json, what the program is, written at the start; and
// coverage.json, what was recorded of it and what was not, written at the end.
namespace ttap {

struct RankStart {
  std::filesystem::path directory;
  uint32_t first_pass = 0;    // after those that are there already
  std::string metadata_json;  // also kept in every pass
  FileDescriptor lock;        // on the directory: one recorder at a time
};
Result<RankStart> make_rank_directory(const RecorderOptions& options);

// kInvalidArgument when the text is not a JSON object; `what` names it.
Status check_json_object(std::string_view text, std::string_view what);

// `source_json`: what the source of the tensors says of itself, an object; empty when it said nothing.
Status write_coverage(const std::filesystem::path& rank_directory, const Report& report, std::string_view source_json);

}  // namespace ttap
