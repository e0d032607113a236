#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "store/files/posix_file.h"
#include "ttap/recorder.h"
#include "ttap/result.h"

// Where a process puts its passes: the run it belongs to, and its directory in it with rank.json, what the program is.
namespace ttap {

struct RankStart {
  std::filesystem::path directory;
  uint32_t run = 1;           // of the runs in RecorderOptions::directory
  uint32_t first_pass = 0;    // after those that are there already
  std::string metadata_json;  // also kept in every pass
  FileDescriptor lock;        // on the directory: one recorder at a time
};
Result<RankStart> make_rank_directory(const RecorderOptions& options);

}  // namespace ttap
