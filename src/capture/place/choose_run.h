#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/json.h"
#include "store/files/posix_file.h"
#include "ttap/recorder.h"
#include "ttap/result.h"
#include "ttap/run.h"

// Which run of a directory a process records into: a new one, unless the run of its launch is there already.
namespace ttap {

// What is known of this process and of those that were started with it.
struct ProcessLaunch {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  std::vector<int64_t> ancestors = {};  // this process, its parent, and so on
  int64_t started_unix_ns = 0;          // when this process began

  static ProcessLaunch of_this_process(std::optional<uint32_t> rank, std::optional<uint32_t> rank_count);
  // For rank.json: the number of ranks, and what launchers tell all of them alike. Equal for ranks of one launch.
  Json described() const;
};

// Held while a process chooses its run, so that processes choose one after the other. Where the file system has no
// locks, or somebody holds this one for ten seconds, they do not wait.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  FileDescriptor lock_;
};

// RunFolder::path is where the ranks go. `here` is the rank.json of this process. Without an order of the options:
// - the run into which this process or an ancestor is recording right now;
// - else, of several ranks, the oldest run of the same launch in which this rank is not there yet. Ranks of one launch
//   run at the same time, so one that ended before this process began is of another;
// - else a new run.
Result<RunFolder> choose_run(const RecorderOptions& options, const ProcessLaunch& launch, const Json& here);

}  // namespace ttap
