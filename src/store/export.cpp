#include <fmt/format.h>

#include "store/foreign/npy.h"
#include "store/foreign/pt.h"
#include "store/foreign/safetensors.h"
#include "store/foreign/safetensors_groups.h"
#include "store/graph/graph_export.h"
#include "store/run_layout.h"
#include "ttap/group.h"
#include "ttap/run.h"

namespace ttap {
namespace {

using Notes = std::vector<std::pair<std::string, std::string>>;

Status write_as(Format format, const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                const Notes& notes) {
  switch (format) {
    case Format::kPt: return write_pt(path, tensors);
    case Format::kSafetensors: return write_safetensors(path, tensors, notes);
    case Format::kNpy: return write_npy_folder(path, tensors);
    case Format::kSegment: break;
  }
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = "a pass is exported to another format than its own",
               .hint = "choose pt, safetensors or npy"};
}

// Whether a file of the format can tell of this record, which has no bytes: that its parts, which are all there too,
// are those of a quantized tensor.
bool can_tell_of(const Pass& pass, size_t index, Format format,
                 const std::function<bool(const TensorRecord&)>& wanted) {
  if (format != Format::kSafetensors || pass.tensor(index).group.empty()) return false;
  const auto parts = group_of(pass, index);
  if (!parts.ok()) return false;
  const auto is_there = [&](std::optional<size_t> part) {
    if (!part) return true;
    const TensorRecord record = pass.tensor(*part);
    return record.has_bytes && (!wanted || wanted(record));
  };
  return is_there(parts->payload) && is_there(parts->scale) && is_there(parts->global) && is_there(parts->zero_point);
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
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord record = pass.tensor(i);
    if (wanted && !wanted(record)) continue;
    if (!record.has_bytes) {
      if (can_tell_of(pass, i, format, wanted)) {
        groups.push_back(record);
      } else {
        ++exported.without_bytes;
        if (pass.missing_from(i)) ++exported.missing;
      }
      continue;
    }
    TTAP_ASSIGN(const TensorView view, pass.read(i));
    tensors.push_back({to_string(record.key()), view});
  }
  exported.tensors = tensors.size();
  Notes notes;
  if (!groups.empty()) notes.emplace_back(kGroupsNote, make_groups_note(groups));
  TTAP_TRY(write_as(format, exported.path, tensors, notes));
  return exported;
}

}  // namespace ttap
