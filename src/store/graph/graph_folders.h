#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ttap/run.h"

namespace ttap {

// Whether a folder is that of a graph, by its name.
bool is_graph_folder(const std::filesystem::path& path);

// The passes in the folders of graphs: `graphs` are all those of one rank, or one alone. An execution with an index
// says which pass it is, and several may be one pass. Others are a pass each: of their own number where there is one
// graph, else the first executions of all graphs come before all the second.
std::vector<PassFile> find_graph_passes(const std::vector<std::filesystem::path>& graphs);

// The folders of graphs in a rank's directory.
std::vector<std::filesystem::path> graph_folders_of(const std::filesystem::path& rank_directory);

// The number by which find_graph_passes() knows the folder of an execution.
uint32_t number_of_graph_pass(const std::filesystem::path& folder);

}  // namespace ttap
