#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "store/posix_file.h"
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

Status write_coverage(const std::filesystem::path& rank_directory, const Report& report);

}  // namespace ttap
