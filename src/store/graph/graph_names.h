#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

// The names below a rank's directory when graphs are recorded as .npy files:
//   graph_{id}/{step}/{node}-{target}.{INPUT|OUTPUT|AFTER}.{i}[.{j}].npy
namespace ttap {

inline constexpr std::string_view kGraphPrefix = "graph_";

// One tensor of one node.
struct NodeTensor {
  std::string node = {};  // without the `%` of the event
  std::string target = {};
  std::string role = "out";
  std::string path = {};  // /0, /1/2, /alpha; empty, as /0, for the only result
};

// A file name without ".npy". What is unfit for a file, or would be read as something else, is written as %XX, and what
// is too long is cut and ends in a hash: two tensors never have the same, but for an empty path and `/0`.
std::string file_stem_of(const NodeTensor& tensor);

// The reverse, also of names that end in a point and a timestamp, which is then `order`. Nothing when the name is not
// of this kind. Of an only result the path is `/0`.
struct NamedNodeTensor : NodeTensor {
  std::string order = {};
};
std::optional<NamedNodeTensor> parse_file_stem(std::string_view stem);

// The folder of a graph, from the name of its event.
std::string graph_folder_name(std::string_view graph);

// Whether a path is that of an execution of a graph: graph_…/3. Its number.
std::optional<uint64_t> parse_step_folder(const std::filesystem::path& path);

}  // namespace ttap
