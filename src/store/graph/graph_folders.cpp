#include "store/graph/graph_folders.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "store/graph/graph_index.h"
#include "store/graph/graph_names.h"

namespace ttap {
namespace fs = std::filesystem;

bool is_graph_folder(const fs::path& path) { return path.filename().string().starts_with(kGraphPrefix); }

std::vector<PassFile> find_graph_passes(const std::vector<fs::path>& graphs) {
  struct Found {
    uint64_t step;
    fs::path path;
  };
  std::vector<PassFile> passes, parts;
  std::vector<Found> without_index;
  for (const fs::path& graph : graphs) {
    std::error_code error;
    for (fs::directory_iterator it(graph, error), end; !error && it != end; it.increment(error)) {
      const auto step = parse_step_folder(it->path());
      if (std::error_code ignored; !step || !it->is_directory(ignored)) continue;
      const auto head = read_graph_index_head(it->path());
      if (!head.ok() || !*head) {
        without_index.push_back({*step, it->path()});
      } else {
        ((*head)->part_of.empty() ? passes : parts).push_back({it->path(), Format::kNpy, (*head)->pass});
      }
    }
  }
  // A part stands for itself where the folder that describes the pass is missing.
  std::set<uint32_t> described;
  for (const PassFile& pass : passes) described.insert(pass.number);
  std::ranges::copy_if(parts, std::back_inserter(passes),
                       [&](const PassFile& p) { return !described.contains(p.number); });
  std::ranges::sort(without_index, {}, [](const Found& f) { return std::tie(f.step, f.path); });
  uint64_t next = passes.empty() ? 0 : uint64_t{std::ranges::max(passes, {}, &PassFile::number).number} + 1;
  for (Found& found : without_index) {
    const uint64_t number = std::min<uint64_t>(graphs.size() == 1 ? std::max(next, found.step) : next, UINT32_MAX);
    passes.push_back({std::move(found.path), Format::kNpy, static_cast<uint32_t>(number)});
    next = number + 1;
  }
  return passes;
}

std::vector<fs::path> graph_folders_of(const fs::path& rank_directory) {
  std::vector<fs::path> graphs;
  std::error_code error;
  for (fs::directory_iterator it(rank_directory, error), end; !error && it != end; it.increment(error))
    if (std::error_code ignored; it->is_directory(ignored) && is_graph_folder(it->path())) graphs.push_back(it->path());
  return graphs;
}

uint32_t number_of_graph_pass(const fs::path& folder) {
  const auto head = read_graph_index_head(folder);
  if (head.ok() && *head) return (*head)->pass;
  std::error_code ignored;
  const fs::path whole = fs::absolute(folder, ignored).lexically_normal();
  for (const PassFile& pass : find_graph_passes(graph_folders_of(whole.parent_path().parent_path())))
    if (pass.path == whole) return pass.number;
  return 0;
}

}  // namespace ttap
