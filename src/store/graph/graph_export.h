#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "ttap/run.h"

namespace ttap {

// Whether a pass describes the execution of graphs.
bool has_graphs(const Pass& pass);

// Which folder an execution of a graph gets. One for each process that writes to a rank's directory.
class GraphSteps {
 public:
  // What was there when the first of its executions came is kept, and counted on from.
  uint64_t folder_number(const std::filesystem::path& graph_folder, uint64_t step);

 private:
  std::map<std::string, uint64_t> first_free_;  // by folder
};

// Writes the pass below `rank_directory` as store/graph/graph_names.h says, with all else that it holds in index.json.
// A tensor that is an argument of several nodes is one file with several names, where the file system can do that.
// Without `steps` folders have the numbers of the recording, and what is there already is an error.
//
// `wanted` is asked for each file, with the record as if it were the node's own: %add_1@in/0.
Result<Exported> export_graph_pass(const Pass& pass, const std::filesystem::path& rank_directory,
                                   const std::function<bool(const TensorRecord&)>& wanted = {},
                                   GraphSteps* steps = nullptr);

}  // namespace ttap
