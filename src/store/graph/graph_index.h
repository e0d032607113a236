#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/graph/stored_pass.h"
#include "ttap/result.h"

// index.json of a folder graph_{id}/{step}:
//   {"format": "ttap-graph-npy", "version": 1, "pass": 3, "graph": "graph_3f2a…", "step": 0, "files": […], …}
// A pass of the program may execute several graphs. The index in the folder of the first one says all that is known of
// the pass ("parts", "started", "ending", "drops", "metadata", "events", "tensors"); those of the others say in whose
// folder that is ("part_of"). Paths are relative to the rank's directory. docs/format.md has the members.
namespace ttap {

inline constexpr std::string_view kGraphIndexName = "index.json";

// A file of one folder.
struct GraphFile {
  std::string file = {};
  std::string node = {};  // the name of the event
  std::string target = {};
  std::string role = {};
  std::string path = {};
  uint32_t record = kNoNumber;
  DType dtype = DType::kF32;
  std::optional<DType> true_dtype = {};  // that the values were widened from
  std::optional<DType> bytes_of = {};    // whose bytes these are
};

// What one folder's index says of itself.
struct GraphIndexHead {
  uint32_t pass = 0;
  std::string graph = {};
  uint64_t step = 0;         // as the recording counted it; the folder's number is larger when others were there before
  std::string part_of = {};  // empty: the pass is described here
};

// `tensors[i].file` is relative to the rank's directory. Fails when a text is not UTF-8.
struct GraphIndex {
  GraphIndexHead head = {};
  std::vector<GraphFile> files = {};
  const StoredPass* pass = nullptr;  // of the first folder; its tensors have their true dtypes and shapes
  std::vector<std::string> parts = {};
};
Result<std::string> to_json(const GraphIndex& index);

// Of a folder that has an index of this format; without reading all of it. Nothing when it has none. kVersion and
// kCorrupt as usual.
Result<std::optional<GraphIndexHead>> read_graph_index_head(const std::filesystem::path& folder);

// The pass that `folder` is the first folder of.
Result<StoredPass> read_graph_index(const std::filesystem::path& folder);
Result<StoredPass> parse_graph_index(std::string_view text, const std::filesystem::path& folder);

// A folder by the names of its files alone: one that another program dumped, or a part whose first folder is not there.
// Calls are inferred from the names, in the order of their timestamps where they have some. kNotFound when no file has
// such a name.
Result<StoredPass> read_dumped_folder(const std::filesystem::path& folder);

}  // namespace ttap
