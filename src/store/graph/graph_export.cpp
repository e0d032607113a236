#include "store/graph/graph_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/utf8.h"
#include "store/files/posix_file.h"
#include "store/foreign/npy.h"
#include "store/graph/graph_index.h"
#include "store/graph/graph_names.h"
#include "store/graph/graph_notes.h"
#include "store/graph/stored_pass.h"
#include "ttap/group.h"

namespace ttap {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNoFolder = SIZE_MAX;

StoredEvent stored(const Pass& pass, uint32_t index) {
  const EventRecord event = pass.event(index);
  StoredEvent copy{std::string(event.name),
                   std::string(event.kind),
                   event.call,
                   event.parent,
                   event.thread,
                   event.time_ns,
                   std::string(event.stack),
                   std::string(event.arguments),
                   std::string(event.results),
                   std::string(event.notes),
                   event.forward,
                   event.duration_ns,
                   event.returned,
                   {}};
  for (uint32_t i = 0; i < event.use_count; ++i) {
    const UseRecord use = pass.use(index, i);
    copy.uses.push_back({std::string(use.role), std::string(use.path), use.tensor, use.record, use.written});
  }
  return copy;
}

// As it was captured, whatever a format that it was read from made of it.
StoredTensor stored(const TensorRecord& record) {
  StoredTensor copy{.name = std::string(record.name),
                    .call = record.call,
                    .role = std::string(record.role),
                    .path = std::string(record.path),
                    .event = record.event,
                    .dtype = record.dtype,
                    .shape = {record.shape.begin(), record.shape.end()},
                    .strides = {record.strides.begin(), record.strides.end()},
                    .device = std::string(record.device),
                    .level = record.level,
                    .value = record.value,
                    .group = std::string(record.group)};
  if (record.has_fingerprint) copy.fingerprint = record.fingerprint;
  if (record.true_dtype) {
    copy.dtype = *record.true_dtype;
    if (const int64_t values = dtype_info(copy.dtype).values; values > 1 && !copy.shape.empty())
      copy.shape.back() /= values;
  }
  return copy;
}

class GraphExport {
 public:
  GraphExport(const Pass& pass, fs::path rank, const std::function<bool(const TensorRecord&)>& wanted,
              GraphSteps* steps)
      : pass_(pass), rank_(std::move(rank)), wanted_(wanted), steps_(steps) {}
  ~GraphExport() {
    std::error_code ignored;
    for (const Folder& folder : folders_) fs::remove_all(folder.partial, ignored);
    if (!done_)
      for (const fs::path& path : renamed_) fs::remove_all(path, ignored);
    for (const Folder& folder : folders_) fs::remove(folder.partial.parent_path(), ignored);  // where it is empty
  }

  Result<Exported> run() {
    stored_.info = pass_.info();
    for (size_t i = 0; i < pass_.tensor_count(); ++i) stored_.tensors.push_back(stored(pass_.tensor(i)));
    for (uint32_t i = 0; i < pass_.event_count(); ++i) stored_.events.push_back(stored(pass_, i));
    list_records();
    list_parts();
    TTAP_TRY(make_folders());
    for (uint32_t i = 0; i < pass_.event_count(); ++i)
      if (stored_.events[i].kind == kNodeKind) TTAP_TRY(write_node(i));
    TTAP_TRY(write_others());
    TTAP_TRY(finish());
    return exported_;
  }

 private:
  struct Folder {
    fs::path path;          // in the rank's directory: graph_3f2a…/0
    fs::path partial = {};  // where it is written
    GraphIndexHead head = {};
    std::vector<GraphFile> files = {};
    std::set<std::string> names = {};
  };

  void list_records() {
    records_of_.resize(stored_.events.size());
    for (uint32_t i = 0; i < stored_.tensors.size(); ++i)
      if (const StoredTensor& tensor = stored_.tensors[i];
          tensor.event < stored_.events.size() && tensor.name == stored_.events[tensor.event].name)
        records_of_[tensor.event].push_back(i);
  }

  void list_parts() {
    for (size_t i = 0; i < stored_.tensors.size(); ++i) {
      if (stored_.tensors[i].group.empty()) continue;
      const auto parts = group_of(pass_, i);
      if (!parts.ok()) continue;
      // What was widened before has no other form.
      for (const std::optional<size_t> part : parts->all())
        if (part)
          stored_.tensors[*part].codes = npy_lacks(stored_.tensors[*part].dtype) && !pass_.tensor(*part).true_dtype;
    }
  }

  Status make_folders() {
    folder_of_.assign(stored_.events.size(), kNoFolder);
    for (uint32_t i = 0; i < stored_.events.size(); ++i) {
      const StoredEvent& event = stored_.events[i];
      if (event.kind == kGraphKind) {
        TTAP_TRY(make_folder(event));
        folder_of_[i] = folders_.size() - 1;
      } else if (event.parent < i) {
        folder_of_[i] = folder_of_[event.parent];
      }
    }
    for (size_t& folder : folder_of_)
      if (folder == kNoFolder) folder = 0;
    exported_.path = rank_ / folders_.front().path;
    return {};
  }

  Status make_folder(const StoredEvent& event) {
    const std::string graph = graph_folder_name(event.name);
    const uint64_t step = read_graph_notes(event.notes).step.value_or(event.call - 1);
    uint64_t number = steps_ == nullptr ? step : steps_->folder_number(rank_ / graph, step);
    const auto taken = [&] {
      std::error_code ignored;
      const fs::path path = fs::path(graph) / std::to_string(number);
      return fs::exists(rank_ / path, ignored) ||
             std::ranges::any_of(folders_, [&](const Folder& folder) { return folder.path == path; });
    };
    while (taken()) {
      if (steps_ == nullptr)
        return Error{.code = ErrorCode::kInvalidArgument,
                     .message = "is there already, and is not overwritten",
                     .path = (rank_ / graph / std::to_string(number)).string(),
                     .hint = "export into another directory"};
      ++number;
    }
    Folder folder{.path = fs::path(graph) / std::to_string(number)};
    folder.partial = rank_ / graph / fmt::format("{}.partial", number);
    folder.head = {.pass = stored_.info.number, .graph = event.name, .step = step};
    std::error_code failure;
    fs::remove_all(folder.partial, failure);  // what a writer that died left behind
    if (!failure) fs::create_directories(folder.partial, failure);
    if (failure) return failed("cannot create the folder", failure, folder.partial);
    folders_.push_back(std::move(folder));
    return {};
  }

  static Error failed(std::string_view what, const std::error_code& code, const fs::path& path) {
    return {code == std::errc::no_space_on_device ? ErrorCode::kNoSpace : ErrorCode::kIo,
            fmt::format("{}: {}", what, code.message()), path.string()};
  }

  Status write_node(uint32_t index) {
    const StoredEvent& event = stored_.events[index];
    const NodeNotes notes = read_node_notes(event.notes);
    const std::string target = !notes.target.empty() ? notes.target : !notes.op.empty() ? notes.op : event.kind;
    std::set<uint32_t> used;
    for (const StoredUse& use : event.uses) {
      if (use.record >= stored_.tensors.size()) continue;
      used.insert(use.record);
      TTAP_TRY(write_file(index, target, use.role, use.path, use.record));
    }
    // Of a node that did not return, and of sources that do not tell of uses.
    for (const uint32_t record : records_of_[index])
      if (!used.contains(record))
        TTAP_TRY(write_file(index, target, stored_.tensors[record].role, stored_.tensors[record].path, record));
    return {};
  }

  // What is of no node has its bytes in the file of one, or else a file of its own.
  Status write_others() {
    std::unordered_map<std::string, uint32_t> by_content;
    const auto content = [&](const StoredTensor& tensor) {
      return fmt::format("{}{}{}{}", to_string(tensor.fingerprint->hash), dtype_name(tensor.dtype),
                         tensor.codes ? "c" : "v", fmt::join(tensor.shape, ","));
    };
    for (uint32_t i = 0; i < stored_.tensors.size(); ++i)
      if (!stored_.tensors[i].file.empty() && stored_.tensors[i].fingerprint)
        by_content.try_emplace(content(stored_.tensors[i]), i);
    for (uint32_t i = 0; i < stored_.tensors.size(); ++i) {
      StoredTensor& tensor = stored_.tensors[i];
      const TensorRecord record = pass_.tensor(i);
      if (!record.has_bytes) {
        if (!has_values(pass_, i)) ++exported_.without_bytes;
        if (pass_.missing_from(i)) ++exported_.missing;
      } else if (tensor.file.empty() && (!wanted_ || wanted_(record))) {
        const auto same = tensor.fingerprint ? by_content.find(content(tensor)) : by_content.end();
        if (same != by_content.end()) {
          tensor.file = stored_.tensors[same->second].file;
        } else {
          const uint32_t event = tensor.event < stored_.events.size() ? tensor.event : 0;
          TTAP_TRY(write_file(event, stored_.events[event].kind, tensor.role, tensor.path, i, tensor.name));
          if (tensor.fingerprint) by_content.try_emplace(content(tensor), i);
        }
      }
      exported_.tensors += !tensor.file.empty();
    }
    return {};
  }

  Status write_file(uint32_t event, const std::string& target, const std::string& role, const std::string& path,
                    uint32_t record, std::string_view name = {}) {
    StoredTensor& tensor = stored_.tensors[record];
    TensorRecord seen = pass_.tensor(record);
    if (!seen.has_bytes) return {};
    const StoredEvent& owner = stored_.events[event];
    if (name.empty()) name = owner.name;
    seen.name = name;
    seen.call = owner.call;
    seen.role = role;
    seen.path = path;
    if (wanted_ && !wanted_(seen)) return {};

    Folder& folder = folders_[folder_of_[event]];
    const std::string_view node = name.starts_with('%') ? name.substr(1) : name;
    NodeTensor named{std::string(node), target, role, path};
    std::string file = file_stem_of(named) + ".npy";
    // Two calls of one name in one execution.
    for (uint32_t again = 2; !folder.names.insert(file).second; ++again)
      file = fmt::format("{}+{}", again, file_stem_of(named)) + ".npy";

    const fs::path place = folder.partial / file;
    std::error_code failure = std::make_error_code(std::errc::no_such_file_or_directory);
    if (!tensor.file.empty()) fs::create_hard_link(partial_of(tensor.file), place, failure);
    if (failure) {
      TTAP_ASSIGN(TensorView view, pass_.read(record));
      if (tensor.codes) view.dtype = npy_bytes_dtype(tensor.dtype);
      TTAP_TRY(write_npy(place, view));
    }
    if (tensor.file.empty()) tensor.file = folder.path / file;
    GraphFile entry{file, std::string(name), target, role, path, record, npy_stored_dtype(tensor.dtype), {}, {}};
    if (tensor.codes) {
      entry.dtype = npy_bytes_dtype(tensor.dtype);
      entry.bytes_of = tensor.dtype;
    } else if (npy_lacks(tensor.dtype)) {
      entry.true_dtype = tensor.dtype;
    }
    folder.files.push_back(std::move(entry));
    return {};
  }

  fs::path partial_of(const fs::path& file) const {
    for (const Folder& folder : folders_)
      if (folder.path == file.parent_path()) return folder.partial / file.filename();
    return {};
  }

  Status finish() {
    std::vector<std::string> parts;
    for (const Folder& folder : folders_)
      if (&folder == &folders_.front() || !folder.files.empty()) parts.push_back(folder.path.generic_string());
    // The first one last: with it the pass is there.
    for (size_t i = folders_.size(); i-- > 0;) {
      Folder& folder = folders_[i];
      if (i > 0 && folder.files.empty()) continue;
      GraphIndex index{.head = folder.head, .files = std::move(folder.files)};
      if (i == 0) {
        index.pass = &stored_;
        index.parts = parts;
      } else {
        index.head.part_of = folders_.front().path.generic_string();
      }
      TTAP_ASSIGN(const std::string text, to_json(index));
      TTAP_ASSIGN(OutputFile file, OutputFile::create(folder.partial / kGraphIndexName));
      TTAP_TRY(file.write(std::as_bytes(std::span(text))));
      TTAP_TRY(file.commit());
      std::error_code failure;
      fs::rename(folder.partial, rank_ / folder.path, failure);
      if (failure) return failed("cannot rename the finished folder", failure, rank_ / folder.path);
      renamed_.push_back(rank_ / folder.path);
      if (i > 0) exported_.parts.push_back(rank_ / folder.path);
    }
    done_ = true;
    return {};
  }

  const Pass& pass_;
  const fs::path rank_;
  const std::function<bool(const TensorRecord&)>& wanted_;
  GraphSteps* steps_;
  StoredPass stored_;
  std::vector<std::vector<uint32_t>> records_of_;  // per event
  std::vector<Folder> folders_;
  std::vector<size_t> folder_of_;  // per event
  std::vector<fs::path> renamed_;
  bool done_ = false;
  Exported exported_;
};

}  // namespace

bool has_graphs(const Pass& pass) {
  for (size_t i = 0; i < pass.event_count(); ++i)
    if (pass.event(i).kind == kGraphKind) return true;
  return false;
}

uint64_t GraphSteps::folder_number(const fs::path& graph_folder, uint64_t step) {
  const auto [entry, is_new] = first_free_.try_emplace(graph_folder.string(), 0);
  if (is_new) {
    std::error_code error;
    for (fs::directory_iterator it(graph_folder, error), end; !error && it != end; it.increment(error))
      if (const auto number = parse_step_folder(it->path())) entry->second = std::max(entry->second, *number + 1);
  }
  return entry->second + step;
}

Result<Exported> export_graph_pass(const Pass& pass, const fs::path& rank_directory,
                                   const std::function<bool(const TensorRecord&)>& wanted, GraphSteps* steps) {
  return GraphExport(pass, rank_directory, wanted, steps).run();
}

}  // namespace ttap
