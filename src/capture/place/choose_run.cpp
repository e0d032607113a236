#include "capture/place/choose_run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "store/files/mapped_file.h"
#include "store/sources/run_layout.h"

namespace ttap {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr size_t kMostAncestors = 256;

std::optional<uint32_t> number_in_environment(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    uint32_t number = 0;
    const char* end = text + std::string_view(text).size();
    if (std::from_chars(text, end, number).ptr == end && end != text) return number;
  }
  return std::nullopt;
}

// Of /proc/PID/stat, counted from the state, which is the first behind the name; 0 when it is not there.
struct ProcessStat {
  int64_t parent = 0;
  int64_t start_ticks = 0;  // since the machine started
};
ProcessStat stat_of(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat found;
  std::string field;
  for (int i = 0; fields >> field; ++i) {
    if (i == 1) found.parent = std::atoll(field.c_str());
    if (i == 19) found.start_ticks = std::atoll(field.c_str());
  }
  return found;
}

int64_t clock_ns(clockid_t clock) {
  timespec now{};
  (void)::clock_gettime(clock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// Now where the system does not tell.
int64_t start_of_process() {
  const int64_t now = clock_ns(CLOCK_REALTIME);
  const int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
  const int64_t ticks = stat_of(::getpid()).start_ticks;
  if (ticks <= 0 || ticks_per_second <= 0) return now;
  return now - clock_ns(CLOCK_BOOTTIME) + ticks * (kSecond / ticks_per_second);
}

// A rank that is there already.
class OtherRank {
 public:
  OtherRank(fs::path directory, RankName name)
      : directory_(std::move(directory)), name_(name), about_(parse_json(side_file_text(directory_ / "rank.json"))) {}

  bool is_of_this_machine(const Json& here) const { return has(here, "host") && has(here, "pid_namespace"); }
  bool is_of_launch(const Json& here) const { return has(here, "launch"); }
  int64_t pid() const {
    const bool said = about_.is_object() && about_.contains("pid") && about_["pid"].is_number_integer();
    return said ? about_["pid"].get<int64_t>() : name_.pid;
  }
  // A recorder holds its lock. Nobody else takes it meanwhile: who begins to record waits for its turn.
  bool is_recording() const {
    auto file = FileDescriptor::open(directory_, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!file.ok()) return false;
    const Status lock = lock_exclusively(file->get(), LockWait::kNo, directory_);
    return !lock.ok() && lock.error().code == ErrorCode::kInvalidArgument;
  }
  // The last file of a rank is made when its recorder closes.
  bool has_ended_before(int64_t unix_ns) const {
    struct stat found {};
    if (::stat(directory_.c_str(), &found) != 0) return true;
    return found.st_mtim.tv_sec * kSecond + found.st_mtim.tv_nsec < unix_ns && !is_recording();
  }

 private:
  bool has(const Json& here, const char* member) const {
    return about_.is_object() && about_.contains(member) && about_[member] == here[member];
  }

  fs::path directory_;
  RankName name_;
  Json about_;
};

std::vector<std::pair<fs::path, RankName>> rank_directories(const fs::path& run) {
  std::vector<std::pair<fs::path, RankName>> ranks;
  std::error_code error;
  for (fs::directory_iterator it(run, error), end; !error && it != end; it.increment(error))
    if (const auto name = parse_rank_directory_name(it->path().filename().string())) ranks.emplace_back(*it, *name);
  return ranks;
}

// Whether this process is of the same launch as those that record, or have recorded, into the run.
bool is_of_launch(const fs::path& run, const ProcessLaunch& launch, const Json& here) {
  const auto ranks = rank_directories(run);
  bool same_launch = false;
  for (const auto& [directory, name] : ranks) {
    // A name without a pid does not tell whose it is.
    const bool may_be_ancestor = name.pid == 0 || std::ranges::count(launch.ancestors, name.pid) > 0;
    if (!may_be_ancestor && launch.rank_count == 1) continue;
    const OtherRank other(directory, name);
    if (may_be_ancestor && other.is_of_this_machine(here) && std::ranges::count(launch.ancestors, other.pid()) > 0 &&
        other.is_recording())
      return true;
    same_launch = same_launch || (launch.rank_count > 1 && other.is_of_launch(here) &&
                                  !other.has_ended_before(launch.started_unix_ns));
  }
  return same_launch && std::ranges::none_of(ranks, [&](const auto& rank) { return rank.second.rank == launch.rank; });
}

}  // namespace

ProcessLaunch ProcessLaunch::of_this_process(std::optional<uint32_t> rank, std::optional<uint32_t> rank_count) {
  ProcessLaunch launch;
  launch.rank = rank ? *rank : number_in_environment({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}).value_or(0);
  const auto given =
      rank_count ? rank_count : number_in_environment({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"});
  launch.rank_count = std::max<uint32_t>(given.value_or(1), 1);
  launch.started_unix_ns = start_of_process();
  for (int64_t pid = ::getpid(); pid > 1 && launch.ancestors.size() < kMostAncestors; pid = stat_of(pid).parent)
    launch.ancestors.push_back(pid);
  return launch;
}

Json ProcessLaunch::described() const {
  Json json = {{"ranks", rank_count}};
  for (const char* variable :
       {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE"})
    if (const char* text = std::getenv(variable); text != nullptr) json[variable] = text;
  return json;
}

DirectoryLock::DirectoryLock(const fs::path& directory) {
  std::error_code ignored;
  fs::create_directories(directory, ignored);  // what cannot be made is said by who needs it
  auto file = FileDescriptor::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!file.ok()) return;
  lock_ = std::move(file).value();
  close_in_forked_child(lock_.get());
  for (int i = 0; i < 1000; ++i) {
    const Status locked = lock_exclusively(lock_.get(), LockWait::kNo, directory);
    if (locked.ok() || locked.error().code == ErrorCode::kUnsupported) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

DirectoryLock::~DirectoryLock() {
  if (lock_.is_open()) keep_in_forked_child(lock_.get());
}

Result<RunFolder> choose_run(const RecorderOptions& options, const ProcessLaunch& launch, const Json& here) {
  const auto numbered = [&](uint32_t number) {
    return RunFolder{number, number == 1 ? options.directory : options.directory / run_directory_name(number)};
  };
  if (options.run) return numbered(*options.run);
  const auto found = runs_in(options.directory);
  // A directory that is missing could not be made: that is said when the rank's is.
  if (!found.ok() || (options.append && found->empty())) return numbered(1);
  if (options.append) return numbered(found->back().number);
  for (const RunFolder& run : *found) {
    const RunFolder candidate = numbered(run.number);
    if (is_of_launch(candidate.path, launch, here)) return candidate;
  }
  return numbered(next_run_number(options.directory));
}

}  // namespace ttap
