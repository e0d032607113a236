#include "capture/place/rank_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <thread>

#include "capture/place/choose_run.h"
#include "capture/place/coverage.h"
#include "core/json.h"
#include "store/files/mapped_file.h"
#include "store/sources/run_layout.h"
#include "ttap/run.h"
#include "ttap/version.h"

namespace ttap {
namespace {

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Of the container: in two of them, processes can have the same pid.
std::string pid_namespace() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

// Makes the directory. Whether nobody else is recording into it.
Result<bool> make_locked(const std::filesystem::path& directory, RankStart& start) {
  start.directory = directory;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return Error{.code = ErrorCode::kIo,
                 .message = fmt::format("cannot make the directory: {}", error.message()),
                 .path = directory.string(),
                 .hint = "choose a directory this user may write to"};
  TTAP_ASSIGN(start.lock, FileDescriptor::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Status lock = lock_exclusively(start.lock.get(), LockWait::kNo, directory);
  return lock.ok() || lock.error().code == ErrorCode::kUnsupported;
}

// Whether a process that had the same pid in another container, or on another machine, recorded into the directory.
bool is_of_another_process(const std::filesystem::path& directory, const Json& here) {
  const Json there = parse_json(side_file_text(directory / "rank.json"));
  const auto differs = [&](const char* what) { return there.contains(what) && there[what] != here[what]; };
  return there.is_object() && (differs("host") || differs("pid_namespace"));
}

// One that nobody of another container uses. Whether nobody else at all is recording into it.
Result<bool> make_locked_of_process(const std::filesystem::path& run, uint32_t rank, const Json& here,
                                    RankStart& start) {
  for (unsigned same_pid = 1;; ++same_pid) {
    const auto directory = run / rank_directory_name(rank, ::getpid(), same_pid);
    TTAP_ASSIGN(const bool locked, make_locked(directory, start));
    // Who has the lock says at once who it is.
    for (int i = 0; !locked && i < 100 && !std::filesystem::exists(directory / "rank.json"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!is_of_another_process(directory, here)) return locked;
  }
}

}  // namespace

Result<RankStart> make_rank_directory(const RecorderOptions& options) {
  TTAP_TRY(check_json_object(options.metadata_json, "RecorderOptions::metadata_json"));
  const auto about_program = parse_json(options.metadata_json);
  const ProcessLaunch launch = ProcessLaunch::of_this_process(options.rank, options.rank_count);
  const uint32_t rank = launch.rank;
  const int64_t pid = ::getpid();
  const Json json = {{"tensortap", version()},
                     {"rank", rank},
                     {"pid", pid},
                     {"pid_namespace", pid_namespace()},
                     {"host", host_name()},
                     {"command", command_line()},
                     {"launch", launch.described()},
                     {"program", about_program}};
  // Until rank.json is there: another process of the launch then finds it, and joins this run.
  const DirectoryLock lock(options.directory);
  TTAP_ASSIGN(const RunFolder run, choose_run(options, launch, json));
  RankStart start;
  start.run = run.number;
  bool locked = false;
  if (options.world_size) {
    TTAP_ASSIGN(locked, make_locked(run.path / graph_rank_directory_name(*options.world_size, rank), start));
    if (!locked) {
      TTAP_ASSIGN(locked, make_locked(run.path / graph_rank_directory_name(*options.world_size, rank, pid), start));
    }
  } else {
    TTAP_ASSIGN(locked, make_locked_of_process(run.path, rank, json, start));
  }
  if (!locked)
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "another recorder is recording into this directory",
                 .path = start.directory.string(),
                 .hint = "give each recorder a directory, or a rank, of its own"};
  TTAP_ASSIGN(const Run existing, Run::open(start.directory));
  for (const PassFile& pass : existing.ranks.at(0).passes)
    start.first_pass = std::max(start.first_pass, pass.number + 1);

  start.metadata_json = json_text(json);
  TTAP_TRY(write_side_file(start.directory / "rank.json", json_text(json, 2) + "\n"));
  return start;
}

}  // namespace ttap
