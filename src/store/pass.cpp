#include "format/layout.h"
#include "store/foreign/npy.h"
#include "store/foreign/pt.h"
#include "store/foreign/safetensors.h"
#include "store/graph/graph_folders.h"
#include "store/graph/graph_index.h"
#include "store/graph/graph_names.h"
#include "store/segment/segment_writer.h"
#include "store/sources/pass_source.h"
#include "store/sources/run_layout.h"

namespace ttap {
namespace fs = std::filesystem;
namespace {

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(magic);
}

// Formats are recognised by content; only .safetensors, which has no magic number, is what is left.
Result<ForeignTensors> read_foreign(const fs::path& path, Format& format) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    format = Format::kNpy;
    return read_npy_folder(path);
  }
  TTAP_ASSIGN(const auto file, MappedFile::open(path));
  if (starts_with(file->bytes(), "\x93NUMPY")) {
    format = Format::kNpy;
    return read_npy(path);
  }
  const std::string extension = path.extension().string();
  const bool torch_name = extension == ".pt" || extension == ".pth" || extension == ".bin";
  if (starts_with(file->bytes(), "PK\x03\x04") || starts_with(file->bytes(), "\x80\x02") || torch_name) {
    format = Format::kPt;
    // The tensors are verified by nothing else, and a pass is read more than once: not here, where all commands open.
    return read_pt(path, {.verify_tensors = false});
  }
  if (extension == ".npy") {
    format = Format::kNpy;
    return read_npy(path);
  }
  format = Format::kSafetensors;
  auto tensors = read_safetensors(path);
  if (!tensors.ok() && tensors.error().code == ErrorCode::kNotThisFormat && extension != ".safetensors")
    return Error{.code = ErrorCode::kNotThisFormat,
                 .message = "not a file TensorTap knows",
                 .path = path.string(),
                 .hint = "it reads .ttap segments, .pt, .safetensors, .npy, and folders of .npy"};
  return tensors;
}

// Whether a file is what a process leaves that is killed as a pass begins: the name, and less than a header behind it.
bool is_hardly_begun(const fs::path& path, std::span<const std::byte> bytes) {
  if (path.extension() != kIncompleteSuffix || bytes.size() >= sizeof(format::FileHeader)) return false;
  const size_t size = std::min(bytes.size(), sizeof format::kFileMagic);
  return starts_with(bytes, {format::kFileMagic, size});
}

std::unique_ptr<Pass::Source> make_empty_source(const fs::path& path, uint64_t bytes) {
  auto source = make_foreign_source({});
  source->info = {.path = path,
                  .ending = Ending::kIncomplete,
                  .being_written = is_being_written(path),
                  .file_bytes = bytes,
                  .problem = "the process ended as the pass began"};
  if (const auto named = parse_pass_name(path, false)) source->info.number = named->number;
  return source;
}

// The folder of a graph's execution; nothing when it is another kind of folder.
Result<std::unique_ptr<Pass::Source>> open_graph_folder(const fs::path& folder) {
  TTAP_ASSIGN(const auto head, read_graph_index_head(folder));
  const fs::path rank = fs::absolute(folder).parent_path().parent_path();
  if (head && head->part_of.empty()) {
    TTAP_ASSIGN(StoredPass pass, read_graph_index(folder));
    return make_stored_source(std::move(pass));
  }
  if (head && parse_step_folder(head->part_of)) {
    // The folder with which the pass begins, when it is there and is of the same pass.
    const fs::path first = rank / fs::path(head->part_of).parent_path().filename() / fs::path(head->part_of).filename();
    const auto first_head = read_graph_index_head(first);
    if (first_head.ok() && *first_head && (*first_head)->part_of.empty() && (*first_head)->pass == head->pass) {
      TTAP_ASSIGN(StoredPass pass, read_graph_index(first));
      return make_stored_source(std::move(pass));
    }
  }
  std::error_code ignored;
  if (!head && fs::exists(folder / kGraphIndexName, ignored)) return std::unique_ptr<Pass::Source>();
  auto dumped = read_dumped_folder(folder);
  if (!dumped.ok() && dumped.error().code == ErrorCode::kNotFound) return std::unique_ptr<Pass::Source>();
  if (!dumped.ok()) return std::move(dumped).error();
  dumped->info.number = number_of_graph_pass(folder);
  return make_stored_source(std::move(dumped).value());
}

}  // namespace

Result<Pass> Pass::open(const fs::path& given) {
  std::error_code ignored;
  fs::path path = given;
  // A pass that was finished since somebody listed it has lost its suffix.
  if (given.extension() == kIncompleteSuffix && !fs::exists(given, ignored)) path.replace_extension();
  if (!fs::is_directory(path, ignored)) {
    TTAP_ASSIGN(const auto file, MappedFile::open(path));
    if (is_hardly_begun(path, file->bytes())) return Pass(make_empty_source(path, file->bytes().size()));
    const bool named_segment = path.extension() == ".ttap" || path.extension() == kIncompleteSuffix;
    if (named_segment || starts_with(file->bytes(), {format::kFileMagic, sizeof format::kFileMagic})) {
      TTAP_ASSIGN(auto source, open_segment_source(path));
      return Pass(std::move(source));
    }
  } else {
    TTAP_ASSIGN(auto source, open_graph_folder(path.has_filename() ? path : path.parent_path()));
    if (source != nullptr) return Pass(std::move(source));
  }
  PassInfo info{.path = path};
  TTAP_ASSIGN(ForeignTensors tensors, read_foreign(path, info.format));
  for (const auto& file : tensors.files) info.file_bytes += file->bytes().size();
  info.readable_bytes = info.file_bytes;
  info.notes = std::move(tensors.notes);
  if (const auto named = parse_pass_name(path, fs::is_directory(path, ignored))) info.number = named->number;
  auto source = make_foreign_source(std::move(tensors));
  source->info = std::move(info);
  return Pass(std::move(source));
}

Pass::Pass(std::unique_ptr<Source> source) : source_(std::move(source)) {}
Pass::Pass(Pass&&) noexcept = default;
Pass& Pass::operator=(Pass&&) noexcept = default;
Pass::~Pass() = default;

const PassInfo& Pass::info() const { return source_->info; }
size_t Pass::event_count() const { return source_->event_count(); }
EventRecord Pass::event(size_t index) const { return source_->event(index); }
UseRecord Pass::use(size_t event, size_t index) const { return source_->use(event, index); }
size_t Pass::tensor_count() const { return source_->tensor_count(); }
TensorRecord Pass::tensor(size_t index) const { return source_->tensor(index); }
std::optional<size_t> Pass::find(const Key& key) const { return source_->find(key); }
Result<TensorView> Pass::read(size_t index) const { return source_->read(index); }
std::optional<uint32_t> Pass::missing_from(size_t index) const { return source_->missing_from(index); }
std::optional<uint64_t> Pass::file_offset(size_t index) const { return source_->file_offset(index); }

}  // namespace ttap
