#include "capture/coverage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/json.h"
#include "store/files/mapped_file.h"
#include "store/files/posix_file.h"
#include "store/segment/segment_writer.h"
#include "store/sources/run_layout.h"
#include "ttap/run.h"
#include "ttap/version.h"

namespace ttap {
namespace {

uint32_t rank_of_environment() {
  for (const char* variable : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    uint32_t rank = 0;
    const char* end = text + std::string_view(text).size();
    if (std::from_chars(text, end, rank).ptr == end && end != text) return rank;
  }
  return 0;
}

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

Status write_json(const std::filesystem::path& path, const Json& json) {
  TTAP_ASSIGN(OutputFile file, OutputFile::create(path));
  const std::string text = json_text(json, 2) + "\n";
  TTAP_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
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
Result<bool> make_locked_of_process(const RecorderOptions& options, uint32_t rank, const Json& here, RankStart& start) {
  for (unsigned same_pid = 1;; ++same_pid) {
    const auto directory = options.directory / rank_directory_name(rank, ::getpid(), same_pid);
    TTAP_ASSIGN(const bool locked, make_locked(directory, start));
    // Who has the lock says at once who it is.
    for (int i = 0; !locked && i < 100 && !std::filesystem::exists(directory / "rank.json"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!is_of_another_process(directory, here)) return locked;
  }
}

}  // namespace

Status check_json_object(std::string_view text, std::string_view what) {
  if (parse_json(text).is_object()) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("{} is not a JSON object", what)};
}

Result<RankStart> make_rank_directory(const RecorderOptions& options) {
  TTAP_TRY(check_json_object(options.metadata_json, "RecorderOptions::metadata_json"));
  const auto about_program = parse_json(options.metadata_json);
  const uint32_t rank = options.rank.value_or(rank_of_environment());
  const int64_t pid = ::getpid();
  const Json json = {{"tensortap", version()},           {"rank", rank},        {"pid", pid},
                     {"pid_namespace", pid_namespace()}, {"host", host_name()}, {"command", command_line()},
                     {"program", about_program}};
  RankStart start;
  bool locked = false;
  if (options.world_size) {
    TTAP_ASSIGN(locked, make_locked(options.directory / graph_rank_directory_name(*options.world_size, rank), start));
    if (!locked) {
      TTAP_ASSIGN(locked,
                  make_locked(options.directory / graph_rank_directory_name(*options.world_size, rank, pid), start));
    }
  } else {
    TTAP_ASSIGN(locked, make_locked_of_process(options, rank, json, start));
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
  TTAP_TRY(write_json(start.directory / "rank.json", json));
  return start;
}

Status write_coverage(const std::filesystem::path& rank_directory, const Report& report, std::string_view source_json) {
  Json patterns = Json::array();
  for (const auto& [pattern, names] : report.patterns) patterns.push_back({{"pattern", pattern}, {"names", names}});
  Json json = {{"passes", report.passes},
               {"tensors", report.tensors},
               {"tensor_bytes", report.tensor_bytes},
               {"deduplicated", report.deduplicated},
               {"file_bytes", report.file_bytes},
               {"names", {{"seen", report.names_seen}, {"recorded", report.names_recorded}}},
               {"patterns", patterns},
               {"drops", parse_json(to_json(EndRecord{.drops = report.drops}))["drops"]},
               {"first_error", report.first_error},
               {"staging_peak_bytes", report.staging_peak_bytes}};
  if (report.graphs.graphs + report.graphs.failed > 0)
    json["cuda_graphs"] = {{"graphs", report.graphs.graphs},
                           {"replays", report.graphs.replays},
                           {"lost", report.graphs.lost},
                           {"not_copied", report.graphs.not_copied},
                           {"failed", report.graphs.failed}};
  if (!source_json.empty()) json["source"] = parse_json(source_json);
  return write_json(rank_directory / "coverage.json", json);
}

std::string Report::describe() const {
  std::string text = fmt::format("{} tensors ({} bytes) of {} names in {} passes; {} bytes written, {} deduplicated",
                                 tensors, tensor_bytes, names_recorded, passes, file_bytes, deduplicated);
  const auto line = [&](uint64_t count, std::string_view what) {
    if (count > 0) text += fmt::format("\nnot recorded: {} {}", count, what);
  };
  line(drops.staging_full, "dropped, the staging memory was full");
  line(drops.quota, "without bytes or lost, the quota was reached");
  line(drops.disk_full, "without bytes or lost, the disk was full");
  line(drops.io_error, "lost to write errors");
  line(drops.unsupported, "that could not be read, or without a proper key");
  line(drops.late, "that came after their pass had ended");
  line(drops.events, "events");
  line(graphs.failed, "CUDA graphs that could not be tapped");
  line(graphs.lost, "replays of CUDA graphs, overwritten before they were read");
  line(graphs.not_copied, "tensors of CUDA graphs as bytes, only their fingerprints: device_staging_bytes was reached");
  for (const auto& [pattern, names] : patterns)
    if (names == 0) text += fmt::format("\nthe pattern '{}' matched none of the {} names seen", pattern, names_seen);
  if (!first_error.empty()) text += fmt::format("\nfirst error: {}", first_error);
  return text;
}

}  // namespace ttap
