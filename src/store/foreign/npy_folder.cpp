#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include "core/element.h"
#include "core/json.h"
#include "core/utf8.h"
#include "quant/format_json.h"
#include "store/files/posix_file.h"
#include "store/foreign/group_note.h"
#include "store/foreign/npy.h"

// index.json: {"format": "ttap-npy", "version": 1, "tensors": [{"key", "file", "dtype", "true_dtype"?, "bytes_of"?},
// …], "groups"?}. What NumPy lacks was widened from `true_dtype`, or stored as the bytes of `bytes_of`. A reader passes
// over entries it does not know, so that more can be added; what changes their meaning raises the version.
namespace ttap {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kIndexName = "index.json";
constexpr std::string_view kFormat = "ttap-npy";
constexpr int kVersion = 1;

Error corrupt_index(const fs::path& path, std::string message) {
  return {ErrorCode::kCorrupt, std::move(message), path.string()};
}

struct IndexEntry {
  std::string key;
  std::string file;
  DType dtype = DType::kF32;
  std::optional<DType> true_dtype = {};
  std::optional<DType> bytes_of = {};
};

struct Index {
  std::vector<IndexEntry> entries;
  Json groups;
};

// The text under `name`, nothing when it is absent or not a string.
std::optional<std::string> text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

Result<IndexEntry> parse_entry(const Json& item, const fs::path& path) {
  if (!item.is_object()) return corrupt_index(path, "an entry of 'tensors' is not an object");
  const auto key = text_of(item, "key"), file = text_of(item, "file"), dtype = text_of(item, "dtype");
  if (!key || !file || !dtype) return corrupt_index(path, "an entry lacks its key, file or dtype");
  // A plain name, or the index could lead out of the folder.
  if (file->empty() || *file == ".." || file->find('/') != std::string::npos || file->find('\0') != std::string::npos)
    return corrupt_index(path, fmt::format("'{}' is not the name of a file in the folder", brief_text(*file)));
  const auto stored = dtype_from_name(*dtype);
  if (!stored) return corrupt_index(path, fmt::format("unknown dtype '{}'", brief_text(*dtype)));
  IndexEntry entry{.key = *key, .file = *file, .dtype = *stored};
  if (item.contains("true_dtype")) {
    const auto name = text_of(item, "true_dtype");
    entry.true_dtype = name ? dtype_from_name(*name) : std::nullopt;
    if (!entry.true_dtype || !widens_to_f32(*entry.true_dtype) || entry.dtype != DType::kF32)
      return corrupt_index(path, fmt::format("'{}': its true dtype does not widen to {}", brief_text(*key), *dtype));
  }
  if (item.contains("bytes_of")) {
    const auto name = text_of(item, "bytes_of");
    entry.bytes_of = name ? dtype_from_name(*name) : std::nullopt;
    if (!entry.bytes_of || !npy_lacks(*entry.bytes_of) || npy_bytes_dtype(*entry.bytes_of) != entry.dtype)
      return corrupt_index(path, fmt::format("'{}': its bytes are not stored as {}", brief_text(*key), *dtype));
  }
  return entry;
}

Result<Index> read_index(const fs::path& path) {
  TTAP_ASSIGN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  // Around the list of groups is the index itself.
  Json index = parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kDeepestNote + 1);
  if (!index.is_object() || text_of(index, "format") != kFormat)
    return corrupt_index(path, "not the index of a folder of .npy files");
  const auto version = index.find("version");
  if (version == index.end() || *version != kVersion)
    return Error{ErrorCode::kVersion, fmt::format("not version {} of the index", kVersion), path.string()};
  const auto tensors = index.find("tensors");
  if (tensors == index.end() || !tensors->is_array()) return corrupt_index(path, "'tensors' is not a list");

  Index found;
  std::unordered_set<std::string> keys;
  for (const Json& item : *tensors) {
    TTAP_ASSIGN(IndexEntry entry, parse_entry(item, path));
    if (!keys.insert(entry.key).second)
      return corrupt_index(path, fmt::format("the key '{}' is there twice", brief_text(entry.key)));
    found.entries.push_back(std::move(entry));
  }
  if (const auto groups = index.find("groups"); groups != index.end()) found.groups = std::move(*groups);
  return found;
}

Result<std::vector<std::string>> npy_names(const fs::path& folder) {
  std::error_code failure;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure))
    if (it->path().extension() == ".npy") names.push_back(it->path().filename().string());
  if (failure) {
    const auto code = failure == std::errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Error{code, fmt::format("cannot list the folder: {}", failure.message()), folder.string()};
  }
  std::ranges::sort(names);
  return names;
}

// The key whose file_name_of() is `stem`; the stem itself when it was not made from a key.
Key key_of_stem(const std::string& stem) {
  std::string text;
  for (size_t i = 0; i < stem.size(); ++i) {
    unsigned byte = 0;
    if (stem[i] == '%' && std::sscanf(stem.substr(i + 1, 2).c_str(), "%2x", &byte) == 1) {
      text += static_cast<char>(byte);
      i += 2;
    } else {
      text += stem[i];
    }
  }
  return file_name_of(text) == stem ? key_of_foreign_name(text) : Key{.name = stem};
}

// Moves the one tensor of `file` to the end of `all`.
ForeignTensor& append(ForeignTensors&& file, ForeignTensors& all) {
  std::ranges::move(file.files, std::back_inserter(all.files));
  std::ranges::move(file.owned, std::back_inserter(all.owned));
  return all.tensors.emplace_back(std::move(file.tensors.front()));
}

}  // namespace

Result<ForeignTensors> read_npy_folder(const fs::path& folder) {
  TTAP_ASSIGN(const auto names, npy_names(folder));
  ForeignTensors all;
  const fs::path index = folder / kIndexName;
  if (std::error_code ignored; !fs::exists(index, ignored)) {
    if (names.empty())
      return Error{.code = ErrorCode::kNotFound,
                   .message = "no .npy file in this folder",
                   .path = folder.string(),
                   .hint = "a pass is one file, or a folder of .npy files; a run directory holds many passes"};
    for (const std::string& name : names) {
      TTAP_ASSIGN(ForeignTensors file, read_npy(folder / name));
      append(std::move(file), all).key = key_of_stem(fs::path(name).stem().string());
    }
    return all;
  }

  TTAP_ASSIGN(const Index found, read_index(index));
  std::unordered_set<std::string> indexed;
  for (const IndexEntry& entry : found.entries) {
    TTAP_ASSIGN(ForeignTensors file, read_npy(folder / entry.file));
    ForeignTensor& tensor = append(std::move(file), all);
    if (tensor.dtype != entry.dtype)
      return corrupt_index(index, fmt::format("'{}' is {} in the index and {} in its file", brief_text(entry.key),
                                              dtype_name(entry.dtype), dtype_name(tensor.dtype)));
    tensor.key = key_of_foreign_name(entry.key);
    tensor.true_dtype = entry.true_dtype;
    tensor.dtype = entry.bytes_of.value_or(tensor.dtype);
    indexed.insert(entry.file);
  }
  for (const std::string& name : names)
    if (!indexed.contains(name)) all.notes.push_back(fmt::format("{}: not in the index, not read", brief_text(name)));
  if (found.groups.is_null()) return all;
  if (Status added = add_groups(found.groups, all); !added.ok())
    return std::move(added).error().with_path(index.string());
  return all;
}

Status write_npy_folder(const fs::path& folder, std::span<const NamedTensor> tensors, std::string_view groups) {
  TTAP_TRY(check_writable(tensors));
  fs::path partial = folder;
  if (!partial.has_filename()) partial = partial.parent_path();  // "out/" means "out"
  const fs::path whole = partial;
  partial += ".partial";
  const auto failed = [&](std::string_view what, const std::error_code& code) {
    return Error{code == std::errc::no_space_on_device ? ErrorCode::kNoSpace : ErrorCode::kIo,
                 fmt::format("{}: {}", what, code.message()), folder.string()};
  };
  std::error_code failure;
  if (fs::exists(whole, failure) && !fs::is_empty(whole, failure))
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "the folder exists and is not empty",
                 .path = folder.string(),
                 .hint = "name a new folder"};
  fs::remove_all(partial, failure);  // what a writer that died left behind
  if (!failure) fs::create_directories(partial, failure);
  if (failure) return failed("cannot create the folder", failure);

  Json list = Json::array();
  const auto write_files = [&]() -> Status {
    for (const NamedTensor& tensor : tensors) {
      const std::string file = file_name_of(tensor.key) + ".npy";
      const DType dtype = tensor.view.dtype;
      TensorView view = tensor.view;
      if (npy_lacks(dtype) && tensor.codes) view.dtype = npy_bytes_dtype(dtype);
      TTAP_TRY(write_npy(partial / file, view));
      const DType stored = npy_stored_dtype(view.dtype);
      Json entry = {{"key", tensor.key}, {"file", file}, {"dtype", dtype_name(stored)}};
      if (stored != dtype) entry[tensor.codes ? "bytes_of" : "true_dtype"] = dtype_name(dtype);
      list.push_back(std::move(entry));
    }
    Json index = {{"format", kFormat}, {"version", kVersion}, {"tensors", std::move(list)}};
    if (!groups.empty()) index["groups"] = parse_json(groups);
    const std::string text = index.dump(1) + "\n";
    TTAP_ASSIGN(OutputFile file, OutputFile::create(partial / kIndexName));
    TTAP_TRY(file.write(std::as_bytes(std::span(text))));
    return file.commit();
  };
  if (auto status = write_files(); !status.ok()) {
    fs::remove_all(partial, failure);
    return status;
  }
  fs::rename(partial, whole, failure);
  if (failure) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    return failed("cannot rename the finished folder", failure);
  }
  return {};
}

}  // namespace ttap
