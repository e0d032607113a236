#include "ttap/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "store/graph/graph_folders.h"
#include "store/graph/graph_names.h"
#include "store/sources/run_layout.h"

namespace ttap {
namespace fs = std::filesystem;
namespace {

// The entries of a directory; an error instead of the exception.
Result<std::vector<fs::directory_entry>> entries_of(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  do {
    entries.clear();
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
      entries.push_back(*it);
  } while (error == std::errc::interrupted);
  if (error) return Error{ErrorCode::kIo, fmt::format("cannot list: {}", error.message()), directory.string()};
  return entries;
}

bool is_rank_directory(const fs::directory_entry& entry) {
  std::error_code ignored;
  return parse_rank_directory_name(entry.path().filename().string()) && entry.is_directory(ignored);
}

bool holds_ranks(const fs::path& directory) {
  const auto entries = entries_of(directory);
  return entries.ok() && std::ranges::any_of(*entries, is_rank_directory);
}

// The runs among the entries of a directory, the oldest first.
std::vector<RunFolder> runs_among(const std::vector<fs::directory_entry>& entries, const fs::path& directory) {
  std::vector<RunFolder> runs;
  if (std::ranges::any_of(entries, is_rank_directory)) runs.push_back({1, directory});
  for (const auto& entry : entries) {
    const auto number = parse_run_directory_name(entry.path().filename().string());
    if (number && *number > 1 && holds_ranks(entry.path())) runs.push_back({*number, entry.path()});
  }
  std::ranges::sort(runs, {}, &RunFolder::number);
  if (runs.size() > 1 && runs.front().number == 1) runs.front().path = directory / run_directory_name(1);
  return runs;
}

Result<Rank> open_rank(const fs::path& directory) {
  Rank rank{.path = directory};
  if (const auto name = parse_rank_directory_name(directory.filename().string())) {
    rank.number = name->rank;
    rank.pid = name->pid;
  }
  TTAP_ASSIGN(const auto entries, entries_of(directory));
  std::vector<fs::path> graphs;
  for (const auto& entry : entries) {
    std::error_code ignored;
    const bool is_directory = entry.is_directory(ignored);
    if (auto pass = parse_pass_name(entry.path(), is_directory)) rank.passes.push_back(std::move(*pass));
    if (is_directory && is_graph_folder(entry.path())) graphs.push_back(entry.path());
  }
  std::ranges::move(find_graph_passes(graphs), std::back_inserter(rank.passes));
  std::ranges::sort(rank.passes, {}, [](const PassFile& p) { return std::tie(p.number, p.path); });
  // A pass may be there in another format as well: its segment says more, and stands for both.
  std::set<uint32_t> segments;
  for (const PassFile& pass : rank.passes)
    if (pass.format == Format::kSegment) segments.insert(pass.number);
  std::erase_if(rank.passes,
                [&](const PassFile& p) { return p.format != Format::kSegment && segments.contains(p.number); });
  return rank;
}

// The run whose ranks are among the entries of a directory.
Result<Run> open_ranks(const std::vector<fs::directory_entry>& entries, const RunFolder& folder, size_t runs) {
  Run run{.path = folder.path, .number = folder.number, .runs = static_cast<uint32_t>(runs)};
  for (const auto& entry : entries) {
    if (!is_rank_directory(entry)) continue;
    TTAP_ASSIGN(Rank rank, open_rank(entry.path()));
    run.ranks.push_back(std::move(rank));
  }
  std::ranges::sort(run.ranks, {}, [](const Rank& r) { return std::tie(r.number, r.pid, r.path); });
  return run;
}

// The folder of a graph, or of one of its executions.
Rank open_graph(const fs::path& path) {
  const bool one = parse_step_folder(path).has_value();
  fs::path above = fs::absolute(path).lexically_normal().parent_path();
  if (one) above = above.parent_path();
  Rank rank{.path = above};
  if (const auto name = parse_rank_directory_name(above.filename().string())) {
    rank.number = name->rank;
    rank.pid = name->pid;
  }
  if (one) {
    rank.passes = {{.path = path, .format = Format::kNpy, .number = number_of_graph_pass(path)}};
  } else {
    rank.passes = find_graph_passes({path});
    std::ranges::sort(rank.passes, {}, &PassFile::number);
  }
  return rank;
}

}  // namespace

std::string_view to_string(Format format) {
  switch (format) {
    case Format::kSegment: return "ttap";
    case Format::kPt: return "pt";
    case Format::kSafetensors: return "safetensors";
    case Format::kNpy: return "npy";
  }
  return "?";
}

std::optional<Format> format_from_name(std::string_view name) {
  for (Format format : {Format::kSegment, Format::kPt, Format::kSafetensors, Format::kNpy})
    if (to_string(format) == name) return format;
  return std::nullopt;
}

Result<std::vector<RunFolder>> runs_in(const fs::path& directory) {
  TTAP_ASSIGN(const auto entries, entries_of(directory));
  return runs_among(entries, directory);
}

Result<Run> Run::open(const fs::path& given) {
  std::error_code error;
  const fs::file_status status = fs::status(given, error);
  if (status.type() == fs::file_type::not_found) {
    // DIRECTORY/run00001: the ranks that lie in the directory itself.
    const fs::path directory = given.has_parent_path() ? given.parent_path() : fs::path(".");
    if (parse_run_directory_name(given.filename().string()) == 1 && holds_ranks(directory)) {
      TTAP_ASSIGN(const auto entries, entries_of(directory));
      return open_ranks(entries, {1, given}, runs_among(entries, directory).size());
    }
    return Error{.code = ErrorCode::kNotFound, .message = "no such file or directory", .path = given.string()};
  }
  if (status.type() == fs::file_type::none)
    return Error{ErrorCode::kIo, fmt::format("cannot stat: {}", error.message()), given.string()};
  // A trailing slash would hide the name that says the rank or the pass.
  const fs::path path = given.has_filename() ? given : given.parent_path();
  const bool is_directory = status.type() == fs::file_type::directory;

  Run run{.path = path};
  if (is_directory && (is_graph_folder(path) || parse_step_folder(path)))
    if (Rank rank = open_graph(path); !rank.passes.empty()) {
      run.ranks.push_back(std::move(rank));
      return run;
    }
  if (!is_directory || parse_pass_name(path, true)) {
    auto pass = parse_pass_name(path, is_directory);
    Rank rank{.path = path.parent_path()};
    rank.passes.push_back(pass ? std::move(*pass) : PassFile{.path = path});
    if (const auto name = parse_rank_directory_name(rank.path.filename().string())) {
      rank.number = name->rank;
      rank.pid = name->pid;
    }
    run.ranks.push_back(std::move(rank));
    return run;
  }

  TTAP_ASSIGN(const auto entries, entries_of(path));
  if (const auto runs = runs_among(entries, path); !runs.empty()) {
    if (runs.back().number == 1) {
      // It may itself be one of several.
      const auto number = parse_run_directory_name(path.filename().string());
      const auto beside =
          number ? runs_in(fs::absolute(path).lexically_normal().parent_path()) : Result<std::vector<RunFolder>>(runs);
      return open_ranks(entries, {number.value_or(1), path}, beside.ok() ? beside->size() : 1);
    }
    TTAP_ASSIGN(const auto newest, entries_of(runs.back().path));
    return open_ranks(newest, runs.back(), runs.size());
  }
  TTAP_ASSIGN(Rank rank, open_rank(path));
  if (!rank.passes.empty() || parse_rank_directory_name(path.filename().string())) {
    run.ranks.push_back(std::move(rank));
  } else if (std::ranges::any_of(entries, [](const auto& e) { return e.path().extension() == ".npy"; })) {
    rank.passes.push_back({.path = path, .format = Format::kNpy});
    run.ranks.push_back(std::move(rank));
  }
  if (run.ranks.empty())
    return Error{.code = ErrorCode::kNotFound,
                 .message = "nothing recorded here: no rank directory, no pass file, no .npy file",
                 .path = path.string(),
                 .hint = "give a run directory, a rank directory, or one pass file"};
  return run;
}

}  // namespace ttap
