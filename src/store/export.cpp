#include <fmt/format.h>

#include "store/foreign/npy.h"
#include "store/foreign/pt.h"
#include "store/foreign/safetensors.h"
#include "store/graph/graph_export.h"
#include "store/run_layout.h"
#include "ttap/run.h"

namespace ttap {
namespace {

Status write_as(Format format, const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  switch (format) {
    case Format::kPt: return write_pt(path, tensors);
    case Format::kSafetensors: return write_safetensors(path, tensors);
    case Format::kNpy: return write_npy_folder(path, tensors);
    case Format::kSegment: break;
  }
  return Error{.code = ErrorCode::kInvalidArgument,
               .message = "a pass is exported to another format than its own",
               .hint = "choose pt, safetensors or npy"};
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
  for (size_t i = 0; i < pass.tensor_count(); ++i) {
    const TensorRecord record = pass.tensor(i);
    if (wanted && !wanted(record)) continue;
    if (!record.has_bytes) {
      ++exported.without_bytes;
      continue;
    }
    TTAP_ASSIGN(const TensorView view, pass.read(i));
    tensors.push_back({to_string(record.key()), view});
  }
  exported.tensors = tensors.size();
  TTAP_TRY(write_as(format, exported.path, tensors));
  return exported;
}

}  // namespace ttap
