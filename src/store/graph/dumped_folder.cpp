#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/element.h"
#include "core/json.h"
#include "core/utf8.h"
#include "store/files/mapped_file.h"
#include "store/foreign/npy.h"
#include "store/foreign/npy_header.h"
#include "store/graph/graph_index.h"
#include "store/graph/graph_names.h"

namespace ttap {
namespace {

namespace fs = std::filesystem;
struct Found {
  NamedNodeTensor named;
  fs::path file;
};

struct Node {
  std::string name;
  std::string target;
  std::string order;  // the smallest timestamp
  std::vector<Found> tensors;
};

// Arguments count up, and names come behind numbers.
std::tuple<bool, size_t, std::string> path_rank(const std::string& path) {
  return {path.find_first_not_of("/0123456789") != std::string::npos, path.size(), path};
}

// True dtypes by file name, where an index of ours is there.
std::map<std::string, DType> true_dtypes_of(const fs::path& folder) {
  std::map<std::string, DType> dtypes;
  const auto file = MappedFile::open(folder / kGraphIndexName);
  if (!file.ok()) return dtypes;
  const auto* text = reinterpret_cast<const char*>((*file)->bytes().data());
  const Json index = parse_json({text, (*file)->bytes().size()});
  if (!index.is_object() || !index.contains("files") || !index["files"].is_array()) return dtypes;
  for (const Json& entry : index["files"]) {
    if (!entry.is_object() || !entry.contains("true_dtype") || !entry.contains("file")) continue;
    if (!entry["true_dtype"].is_string() || !entry["file"].is_string()) continue;
    const auto dtype = dtype_from_name(entry["true_dtype"].get<std::string>());
    if (dtype && widens_to_f32(*dtype)) dtypes.emplace(entry["file"].get<std::string>(), *dtype);
  }
  return dtypes;
}

class FolderReader {
 public:
  explicit FolderReader(fs::path folder) : folder_(std::move(folder)), true_dtypes_(true_dtypes_of(folder_)) {}

  Result<StoredPass> read() {
    TTAP_TRY(list());
    if (nodes_.empty())
      return Error{.code = ErrorCode::kNotFound, .message = "no file of a graph's node here", .path = folder_.string()};
    pass_.info.path = folder_;
    pass_.info.format = Format::kNpy;
    pass_.links_by_bytes = true;
    // The graph itself, so that a log has its heading.
    pass_.events.push_back({.name = folder_.parent_path().filename().string(),
                            .kind = "graph",
                            .notes = json_text(Json{{"step", parse_step_folder(folder_).value_or(0)}})});
    std::vector<Node*> ordered;
    for (auto& [name, node] : nodes_) ordered.push_back(&node);
    std::ranges::stable_sort(ordered, {}, [](const Node* node) { return node->order; });
    for (Node* node : ordered) TTAP_TRY(add(*node));
    pass_.info.readable_bytes = pass_.info.file_bytes;
    return std::move(pass_);
  }

 private:
  Status list() {
    std::error_code failure;
    std::vector<fs::path> files;
    for (fs::directory_iterator it(folder_, failure), end; !failure && it != end; it.increment(failure))
      if (it->path().extension() == ".npy") files.push_back(it->path());
    if (failure)
      return Error{ErrorCode::kIo, fmt::format("cannot list the folder: {}", failure.message()), folder_.string()};
    std::ranges::sort(files);
    std::set<std::tuple<std::string, std::string, std::string>> seen;
    for (const fs::path& file : files) {
      auto named = parse_file_stem(file.stem().string());
      if (!named) {
        pass_.info.notes.push_back(
            fmt::format("{}: not the tensor of a node, not read", brief_text(file.filename().string())));
        continue;
      }
      if (!seen.emplace(named->node, named->role, named->path).second) {
        pass_.info.notes.push_back(
            fmt::format("{}: the same once more, not read", brief_text(file.filename().string())));
        continue;
      }
      Node& node = nodes_[named->node];
      node.name = named->node;
      node.target = named->target;
      if (node.order.empty() || named->order < node.order) node.order = named->order;
      node.tensors.push_back({std::move(*named), file});
    }
    return {};
  }

  Status add(Node& node) {
    const auto event = static_cast<uint32_t>(pass_.events.size());
    StoredEvent call{.name = "%" + node.name,
                     .parent = 0,
                     .notes = json_text(Json{{"op", "call_function"}, {"target", node.target}}),
                     .returned = true};
    const auto outputs = std::ranges::count_if(node.tensors, [](const Found& f) { return f.named.role == "out"; });
    const auto turn_of = [](const Found& f) { return f.named.role == "in" ? 0 : f.named.role == "after" ? 1 : 2; };
    std::ranges::sort(node.tensors, {}, [&](const Found& f) { return std::pair(turn_of(f), path_rank(f.named.path)); });
    for (const Found& found : node.tensors) {
      std::string path = found.named.path;
      if (found.named.role == "out" && outputs == 1 && path == "/0") path.clear();
      std::string& text = found.named.role == "in" ? call.arguments : call.results;
      if (found.named.role != "after") {
        const std::string_view name = std::string_view(path).substr(path.empty() ? 0 : 1);
        const bool by_name =
            found.named.role == "in" && name.find_first_not_of("0123456789/") != std::string_view::npos;
        text += fmt::format("{}{}{}%{}", text.empty() ? "" : ", ", by_name ? name : "", by_name ? "=" : "",
                            call.uses.size());
      }
      call.uses.push_back(
          {.role = found.named.role, .path = path, .record = static_cast<uint32_t>(pass_.tensors.size())});
      TTAP_TRY(add_tensor(call, event, found, path));
    }
    if (outputs > 1) call.results = "(" + call.results + ")";
    pass_.events.push_back(std::move(call));
    return {};
  }

  Status add_tensor(const StoredEvent& call, uint32_t event, const Found& found, const std::string& path) {
    TTAP_ASSIGN(const ForeignTensors file, read_npy(found.file));
    const ForeignTensor& tensor = file.tensors.front();
    StoredTensor stored{.name = call.name,
                        .role = found.named.role,
                        .path = path,
                        .event = event,
                        .dtype = tensor.dtype,
                        .shape = tensor.shape,
                        .strides = tensor.strides,
                        .file = found.file};
    if (const auto known = true_dtypes_.find(found.file.filename().string());
        known != true_dtypes_.end() && tensor.dtype == DType::kF32)
      stored.true_dtype = known->second;
    for (const auto& mapped : file.files) pass_.info.file_bytes += mapped->bytes().size();
    pass_.tensors.push_back(std::move(stored));
    return {};
  }

  fs::path folder_;
  std::map<std::string, DType> true_dtypes_;
  std::map<std::string, Node> nodes_;
  StoredPass pass_;
};

}  // namespace

Result<StoredPass> read_dumped_folder(const fs::path& folder) { return FolderReader(folder).read(); }

}  // namespace ttap
