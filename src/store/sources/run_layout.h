#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ttap/api.h"
#include "ttap/run.h"

// The names inside a run directory.
namespace ttap {

// rank0_pid7. Processes in different containers may have the same pid: the second gets rank0_pid7_2.
TTAP_API std::string rank_directory_name(uint32_t rank, int64_t pid, unsigned same_pid = 1);
// Of a rank that is exported: as its directory is called, so that no two get the same.
TTAP_API std::string exported_rank_name(const std::filesystem::path& of_rank, uint32_t rank, int64_t pid);
std::string pass_stem(uint32_t number);  // pass00003
// run00002. The first run of a directory lies in the directory itself.
TTAP_API std::string run_directory_name(uint32_t number);
TTAP_API std::optional<uint32_t> parse_run_directory_name(std::string_view name);
// Of a new run in the directory: behind those that are there, also where nothing was recorded yet.
TTAP_API uint32_t next_run_number(const std::filesystem::path& directory);
// worldsize8_global_rank3: of graphs that are recorded as .npy. Where another process is at work there, with its pid:
// worldsize8_global_rank3_pid7.
std::string graph_rank_directory_name(uint32_t world_size, uint32_t rank, std::optional<int64_t> pid = {});
struct RankName {
  uint32_t rank;
  int64_t pid;  // 0 when the name has none
};
TTAP_API std::optional<RankName> parse_rank_directory_name(std::string_view name);
// From `pass00003.pt`, `pass00003.ttap.incomplete`, or for npy the folder `pass00003`.
std::optional<PassFile> parse_pass_name(const std::filesystem::path& path, bool is_directory);

}  // namespace ttap
