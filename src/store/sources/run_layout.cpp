#include "store/sources/run_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "store/segment/segment_writer.h"

namespace ttap {
namespace {

template <class T>
bool take_number(std::string_view& text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::string rank_directory_name(uint32_t rank, int64_t pid, unsigned same_pid) {
  return fmt::format("rank{}_pid{}{}", rank, pid, same_pid > 1 ? fmt::format("_{}", same_pid) : "");
}
std::string exported_rank_name(const std::filesystem::path& of_rank, uint32_t rank, int64_t pid) {
  const std::string name = of_rank.filename().string();
  return name.starts_with("rank") && parse_rank_directory_name(name) ? name : rank_directory_name(rank, pid);
}
std::string graph_rank_directory_name(uint32_t world_size, uint32_t rank, std::optional<int64_t> pid) {
  return fmt::format("worldsize{}_global_rank{}{}", world_size, rank, pid ? fmt::format("_pid{}", *pid) : "");
}
std::string pass_stem(uint32_t number) { return fmt::format("pass{:05}", number); }

std::string run_directory_name(uint32_t number) { return fmt::format("run{:05}", number); }
std::optional<uint32_t> parse_run_directory_name(std::string_view name) {
  const size_t length = name.size();
  int64_t number = 0;
  if (!take(name, "run") || length < 8 || !take_number(name, number)) return std::nullopt;
  if (!name.empty() || number < 1 || number > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(number);
}

uint32_t next_run_number(const std::filesystem::path& directory) {
  uint32_t last = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (const auto number = parse_run_directory_name(name)) last = std::max(last, *number);
    if (parse_rank_directory_name(name)) last = std::max(last, 1u);
  }
  return last + 1;
}

std::optional<RankName> parse_rank_directory_name(std::string_view name) {
  int64_t rank = 0;
  int64_t pid = 0;
  int64_t world_size = 0;
  if (take(name, "worldsize")) {
    if (!take_number(name, world_size) || !take(name, "_global_rank") || !take_number(name, rank)) return std::nullopt;
    if (!name.empty() && (!take(name, "_pid") || !take_number(name, pid))) return std::nullopt;
    if (!name.empty() || rank > UINT32_MAX) return std::nullopt;
    return RankName{static_cast<uint32_t>(rank), pid};
  }
  if (!take(name, "rank") || !take_number(name, rank) || !take(name, "_pid") || !take_number(name, pid))
    return std::nullopt;
  if (int64_t same_pid = 0; take(name, "_") && !take_number(name, same_pid)) return std::nullopt;
  if (!name.empty() || rank > UINT32_MAX) return std::nullopt;
  return RankName{static_cast<uint32_t>(rank), pid};
}

std::optional<PassFile> parse_pass_name(const std::filesystem::path& path, bool is_directory) {
  const std::string file_name = path.filename().string();
  std::string_view rest = file_name;
  int64_t number = 0;
  if (!take(rest, "pass") || !take_number(rest, number) || number > UINT32_MAX) return std::nullopt;
  PassFile pass{path, Format::kNpy, static_cast<uint32_t>(number)};
  if (is_directory) return rest.empty() ? std::optional(pass) : std::nullopt;
  if (rest == ".ttap" || rest == std::string(".ttap").append(kIncompleteSuffix)) {
    pass.format = Format::kSegment;
  } else if (rest == ".pt") {
    pass.format = Format::kPt;
  } else if (rest == ".safetensors") {
    pass.format = Format::kSafetensors;
  } else {
    return std::nullopt;
  }
  return pass;
}

}  // namespace ttap
