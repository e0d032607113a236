#include <fmt/format.h>

#include "store/foreign/group_note.h"
#include "store/foreign/npy.h"
#include "store/foreign/pt.h"
#include "store/foreign/safetensors.h"
#include "store/graph/graph_export.h"
#include "store/sources/run_layout.h"
#include "ttap/group.h"
#include "ttap/run.h"

namespace ttap {
namespace {

// `groups` describes quantized tensors; empty when there are none.
Status write_as(Format format, const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                const std::string& groups) {
  std::vector<std::pair<std::string, std::string>> notes;
  if (!groups.empty()) notes.emplace_back(kGroupsNote, groups);
  switch (format) {
    case Format::kPt: return write_pt(path, tensors, groups);
    case Format::kSafetensors: return write_safetensors(path, tensors, notes);
    case Format::kNpy: return write_npy_folder(path, tensors, groups);
    case Format::kSegment: break;
  }
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = "a pass is exported to another format than its own",
               .hint = "choose pt, safetensors or npy"};
}

// The parts of a quantized tensor that a file can tell of: those that are all in it. Else nothing.
std::vector<size_t> parts_to_tell_of(const Pass& pass, size_t index,
                                     const std::function<bool(const TensorRecord&)>& wanted) {
  std::vector<size_t> numbers;
  if (pass.tensor(index).group.empty()) return numbers;
  const auto parts = group_of(pass, index);
  if (!parts.ok()) return numbers;
  for (const std::optional<size_t> part : parts->all()) {
    if (!part) continue;
    const TensorRecord record = pass.tensor(*part);
    if (!record.has_bytes || record.true_dtype || (wanted && !wanted(record))) return {};
    numbers.push_back(*part);
  }
  return numbers;
}

}  // namespace

Result<Exported> export_pass(const Pass& pass, Format format, const std::filesystem::path& directory,
                             const std::function<bool(const TensorRecord&)>& wanted) {
  if (format == Format::kNpy && has_graphs(pass)) return export_graph_pass(pass, directory, wanted);
  Exported exported;
  const std::string extension = format == Format::kNpy ? "" : fmt::format(".{}", to_string(format));
  exported.path = directory / (pass_stem(pass.info().number) + extension);
  std::error_code error;
  if (std::filesystem::exists(exported.path, error))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "is there already, and is not overwritten",
                 .path = exported.path.string(),
                 .hint = "export into another directory"};
  std::filesystem::create_directories(directory, error);
  if (error)
    return Error{ErrorCode::kIo, fmt::format("cannot make the directory: {}", error.message()), directory.string()};

  std::vector<NamedTensor> tensors;
  std::vector<TensorRecord> groups;
  std::vector<bool> is_part(pass.tensor_count());
  std::vector<size_t> numbers;  // of the tensors
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord record = pass.tensor(i);
    if (wanted && !wanted(record)) continue;
    if (!record.has_bytes) {
      if (const auto parts = parts_to_tell_of(pass, i, wanted); !parts.empty()) {
        groups.push_back(record);
        for (const size_t part : parts) is_part[part] = true;
      } else {
        ++exported.without_bytes;
        if (pass.missing_from(i)) ++exported.missing;
      }
      continue;
    }
    TTAP_ASSIGN(const TensorView view, pass.read(i));
    tensors.push_back({to_string(record.key()), view});
    numbers.push_back(i);
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].codes = is_part[numbers[i]];
  exported.tensors = tensors.size();
  TTAP_TRY(write_as(format, exported.path, tensors, groups.empty() ? std::string() : make_groups_note(groups)));
  return exported;
}

}  // namespace ttap
